package control

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"grattoir/device/health"
	"grattoir/device/printer"
	"grattoir/device/terminal"
	"grattoir/validate"
)

// heard is a log that is read while others write.
type heard struct {
	mu   sync.Mutex
	text strings.Builder
}

func (h *heard) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.Write(p)
}

func (h *heard) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.String()
}

func TestSellingIsATicketThatMayBePaidOrABatch(t *testing.T) {
	view := func(stage terminal.Stage, outcome validate.Outcome) terminal.State {
		return terminal.State{View: terminal.View{Stage: stage, Verdict: validate.Verdict{Outcome: outcome}}}
	}
	for _, test := range []struct {
		name  string
		state terminal.State
		want  bool
	}{
		{"idle", view(terminal.Idle, ""), false},
		{"winner", view(terminal.Verdict, validate.Pay), true},
		{"loser that stays", view(terminal.Verdict, validate.Refuse), false},
		{"referred", view(terminal.Verdict, validate.Refer), false},
		{"digits to type", view(terminal.Typing, ""), true},
		{"paid", view(terminal.Paid, validate.Pay), false},
		{"batch", terminal.State{View: terminal.View{Stage: terminal.Idle}, Batch: &terminal.Batch{}}, true},
		{"batch that is paid", terminal.State{View: terminal.View{Stage: terminal.Paid}, Batch: &terminal.Batch{Paid: true}}, false},
	} {
		if got := selling(test.state); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

// TestSelfTestThroughTheSocket: the step's check comes back, the log hears of it, a mark
// that could be a ticket's code is refused, and two self-tests do not mix.
func TestSelfTestThroughTheSocket(t *testing.T) {
	const mark = "GRATTOIR-TEST-ABCDEFGHJK"
	began, release := make(chan struct{}), make(chan struct{})
	var log heard
	opened := 0
	bench := health.Bench{
		Print: func(_ context.Context, got string) (printer.State, error) {
			if got != mark {
				t.Errorf("the slip carries %q", got)
			}
			close(began)
			<-release
			return printer.StatePrinted, nil
		},
		Drawer: func(context.Context) error { opened++; return errors.New("the coil is away") },
	}
	client := serve(t, func(o *Options) { o.Bench, o.Log = bench, slog.New(slog.NewTextHandler(&log, nil)) })
	if _, err := client.SelfTest(t.Context(), health.TrialPrint, "1003990000123017"); err == nil || strings.Contains(err.Error(), "10039") {
		t.Errorf("a ticket's code as mark: %v", err)
	}
	done := make(chan error, 1)
	go func() {
		c, err := client.SelfTest(t.Context(), health.TrialPrint, mark)
		if c.State != health.OK || c.Code != health.TrialPrint {
			err = errors.Join(err, errors.New(c.Detail))
		}
		done <- err
	}()
	<-began
	if _, err := client.SelfTest(t.Context(), health.TrialDrawer, mark); err == nil || !strings.Contains(err.Error(), "another self-test") {
		t.Errorf("a second self-test: %v", err)
	}
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
	c, err := client.SelfTest(t.Context(), health.TrialDrawer, mark)
	if err != nil || c.State != health.Fail || opened != 1 {
		t.Errorf("%+v, %v, opened %d times", c, err, opened)
	}
	if !strings.Contains(log.String(), "step=drawer state=fail") {
		t.Errorf("the log does not tell of the drawer: %s", log.String())
	}
	if c, err := client.SelfTest(t.Context(), health.TrialLamps, mark); err != nil || c.State != health.Skipped {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestSelfTestWaitsForNoCustomer(t *testing.T) {
	tried := false
	d := serve(t, func(o *Options) {
		o.Bench.Drawer = func(context.Context) error { tried = true; return nil }
	})
	if _, err := d.Check(t.Context(), d.ticket(t, 1, 2000).Digits(), false); err != nil {
		t.Fatal(err)
	}
	_, err := d.SelfTest(t.Context(), health.TrialDrawer, "GRATTOIR-TEST-ABCDEFGHJK")
	if denied, is := errors.AsType[*terminal.Denied](err); !is || denied.Code != "T0" || tried {
		t.Errorf("%v, tried %v", err, tried)
	}
}
