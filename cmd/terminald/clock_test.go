package main

import (
	"testing"
	"time"
)

// TestClockFaultsAreNamedAndMended walks one clock through its troubles.
func TestClockFaultsAreNamedAndMended(t *testing.T) {
	began := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	var now, trusted time.Time
	var up time.Duration
	now = began
	w := newClockWatch(func() time.Time { return now }, func() time.Duration { return up }, func() time.Time { return trusted }, time.Time{})
	pass := func(d time.Duration) { now, up = now.Add(d), up+d }
	want := func(step, code string) {
		t.Helper()
		got := ""
		if f := w.fault(); f != nil {
			got = f.Code
		}
		if got != code {
			t.Errorf("%s: %q, want %q", step, got, code)
		}
	}
	want("at the start", "")
	pass(time.Hour)
	want("an hour later", "")
	pass(-2 * time.Second)
	up += 3 * time.Second
	want("set by a network that knows better", "")
	now = now.Add(-2 * time.Hour)
	want("set back", "H3")
	pass(5 * time.Hour)
	want("hours after it was set back", "H3")
	now = now.AddDate(20, 0, 0)
	want("20 years ahead", "H2")
	now = time.Unix(1000, 0)
	want("1970", "H1")
	now, trusted = began, began.Add(time.Minute)
	want("confirmed by central", "")
	trusted = time.Time{}
	want("with nothing to hold it against", "")
	trusted = began.Add(-10 * time.Minute)
	want("ten minutes ahead of central", "H2")
	trusted = began.Add(10 * time.Minute)
	want("ten minutes behind central", "H1")
}

func TestClockBeforeWhatCentralHasSignedIsBehind(t *testing.T) {
	signed := time.Date(2027, 3, 1, 0, 0, 0, 0, time.UTC)
	now := signed.Add(-time.Hour)
	w := newClockWatch(func() time.Time { return now }, func() time.Duration { return 0 }, func() time.Time { return time.Time{} }, signed)
	if f := w.fault(); f == nil || f.Code != "H1" {
		t.Errorf("%+v", f)
	}
	now = signed.Add(time.Hour)
	if f := w.fault(); f != nil {
		t.Errorf("%+v", f)
	}
}
