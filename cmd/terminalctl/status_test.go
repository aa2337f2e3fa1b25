package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"grattoir/device/control"
	"grattoir/device/health"
)

// TestStatusNamesTheBlocksThatAreNotHere: one line for each that this terminal has packs
// of, the others counted; and both files of two that claim the same packs.
func TestStatusNamesTheBlocksThatAreNotHere(t *testing.T) {
	st := control.Status{Terminal: "T-1", Blocks: []control.Block{{Game: "bingo", GameCode: "00399", File: "a.manifest", Overlaps: "b.manifest"}}, Damaged: []string{"a.manifest", "b.manifest"},
		Link: &control.Link{Region: "bzh", QuotaBytes: 20000 << 20, TakenBytes: 150 << 20, Missing: []control.MissingBlock{
			{GameCode: "00399", FirstPack: 1, LastPack: 150000, Own: true, Why: "coming"},
			{GameCode: "00400", FirstPack: 1, LastPack: 9, Own: true, Why: "disk"},
			{GameCode: "00401", Why: "quota"}, {GameCode: "00402", Why: "quota"}, {GameCode: "00403", Why: "program"}}}}
	var out strings.Builder
	if err := printStatus(&out, st); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"150 MB of 20000 MB, region bzh",
		"NOT HERE, though packs of it are: game code 00399, packs 1-150000: on the way",
		"NOT HERE, though packs of it are: game code 00400, packs 1-9: no room on the disk: free some space",
		"not here: 2 blocks of other packs: no room in quota_mb",
		"not here: 1 blocks of other packs: it needs a newer program: update",
		"a.manifest OVERLAPS b.manifest: take the wrong file away",
		"NOT USABLE: b.manifest",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}

func TestStatusSaysWhichPolicyIsInForce(t *testing.T) {
	end := "2026-12-31"
	for _, c := range []struct {
		policy string
		limits control.Limits
		want   []string
	}{
		{"t1", control.Limits{Source: "configuration"}, []string{"Policy    t1 (from the configuration)"}},
		{"2026-1", control.Limits{Source: "signed", Fault: &control.Fault{Code: "R2", Clerk: "x", Technician: "a file cannot be used"},
			Signed:   []control.SignedPolicy{{Version: "2026-1", ValidFrom: "2026-01-01", ValidTo: &end, File: "a.policy", InForce: true}, {Version: "2027-1", ValidFrom: "2027-02-01"}},
			Unusable: []control.UnusableFile{{File: "b.policy", Why: "not signed"}}, Findings: []string{"gap: no policy holds from 2027-01-01 to 2027-01-31"}},
			[]string{"Policy    2026-1 (signed)", "R2 a file cannot be used", "2026-1, from 2026-01-01 to 2026-12-31\n", "2027-1, from 2027-02-01 on; its file has gone",
				"NOT USABLE: b.policy: not signed", "gap: no policy holds from 2027-01-01 to 2027-01-31"}},
		{"", control.Limits{Source: "none"}, []string{"Policy    none, nothing is paid (every signed one is over)"}},
	} {
		var out strings.Builder
		if err := printStatus(&out, control.Status{Terminal: "T-1", Policy: c.policy, Limits: c.limits}); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%q is not in\n%s", want, out.String())
			}
		}
	}
}

func TestImportSaysWhenTheDaemonDoesNotTakeThePolicy(t *testing.T) {
	a := importAnswer{File: "/data/policies/2026-1.policy", Version: "2026-1"}
	for _, c := range []struct {
		limits control.Limits
		want   string // "" for taken
	}{
		{control.Limits{Signed: []control.SignedPolicy{{Version: "2026-1", File: "2026-1.policy"}}}, ""},
		{control.Limits{Signed: []control.SignedPolicy{{Version: "2026-1", File: "old.policy"}}}, ""},
		{control.Limits{Unusable: []control.UnusableFile{{File: "2026-1.policy", Why: "1 of 2 signatures needed"}}}, "1 of 2 signatures needed"},
		{control.Limits{Signed: []control.SignedPolicy{{Version: "2026-1"}}}, "--into is not its folder"},
		{control.Limits{}, "--into is not its folder"},
	} {
		err := takenBy(control.Status{Limits: c.limits}, a)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.limits, err)
		}
	}
}

// TestStatusSaysWhoMayPay: a terminal that pays nobody for want of a sign-on says so.
func TestStatusSaysWhoMayPay(t *testing.T) {
	early := control.Status{Now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), Policy: "2027-1",
		Limits: control.Limits{Source: "signed", Signed: []control.SignedPolicy{{Version: "2027-1", ValidFrom: "2027-01-01", File: "a.policy", InForce: true}}}}
	known := early
	known.Trusted = known.Now
	for _, c := range []struct {
		name      string
		st        control.Status
		want, not string
	}{
		{"no sign-on", control.Status{}, "", "Operator"},
		{"nobody", control.Status{SignOn: true}, "nobody is signed on, nothing is paid", ""},
		{"locked", control.Status{SignOn: true, Session: &control.Session{Operator: "anne", Locked: true}}, "anne, counter LOCKED", ""},
		{"at work", control.Status{SignOn: true, Session: &control.Session{Operator: "anne"}}, "Operator  anne, since", "LOCKED"},
		{"training", control.Status{Training: true}, "nothing is recorded", ""},
		{"no block", control.Status{}, "No block lies here", "EMISSION"},
		{"unusable block alone", control.Status{Damaged: []string{"x"}}, "NOT USABLE: x", ""},
		{"policy before its day", early, "in force already: no verified time", ""},
		{"policy, time known", known, "2027-1, from", "in force already"},
	} {
		var out strings.Builder
		if err := printStatus(&out, c.st); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), c.want) || c.not != "" && strings.Contains(out.String(), c.not) {
			t.Errorf("%s: want %q and not %q in\n%s", c.name, c.want, c.not, out.String())
		}
	}
}

// TestNamesOfFilesCannotWriteOnTheScreen: a stick may bring a file whose name clears the
// screen, or goes on in a line that looks like the doctor's own.
func TestNamesOfFilesCannotWriteOnTheScreen(t *testing.T) {
	const name = "a\x1b[2J\x1b]0;x\a\nok    D7   blocks: all is well\u202e.manifest"
	f := &control.Fault{Code: "R2", Clerk: "two\nlines", Technician: name}
	st := control.Status{Terminal: "T-1", Ledger: f, Damaged: []string{name}, Blocks: []control.Block{{File: name, Overlaps: name}},
		Limits: control.Limits{Source: "none", Fault: f, Unusable: []control.UnusableFile{{File: name, Why: name}}}, Link: &control.Link{Faults: []control.Fault{*f}}}
	r := health.Report{Checks: []health.Check{{Code: "D7", Name: "blocks", State: health.Fail, Detail: name, Hint: name}}}
	var out strings.Builder
	if err := errors.Join(printStatus(&out, st), printReport(&out, r)); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if strings.ContainsAny(line, "\x1b\a\u202e") || strings.HasPrefix(line, "ok ") {
			t.Errorf("%q", line)
		}
	}
}
