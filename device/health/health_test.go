package health

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"grattoir/validate/money"
)

func TestClerksWordsFitTwoLinesOf32Columns(t *testing.T) {
	codes := map[string]bool{}
	for c, f := range Conditions() {
		if codes[f.Code] || f.Code == "" || f.Technician == "" {
			t.Errorf("%s: code %q is taken or empty, or the technician has no words", c, f.Code)
		}
		codes[f.Code] = true
		for _, l := range []money.Language{money.French, money.English} {
			lines := strings.Split(f.Clerk(l), "\n")
			if len(lines) != 2 {
				t.Errorf("%s %s: %d lines", c, l, len(lines))
			}
			for _, line := range lines {
				if n := utf8.RuneCountInString(line); n == 0 || n > 32 {
					t.Errorf("%s %s: %d columns: %s", c, l, n, line)
				}
			}
		}
	}
	if len(codes) != len(ledgers)+len(clocks)+len(limits) {
		t.Errorf("%d codes", len(codes))
	}
}

func TestWordsCarryWhatWasFound(t *testing.T) {
	if f := Ledger(LedgerFull, errors.New("3 MB free")); f.Code != "L1" || !strings.HasSuffix(f.Technician, "(3 MB free)") {
		t.Errorf("%+v", f)
	}
	if f := Ledger("something new", nil); f.Code != "L6" {
		t.Errorf("%+v", f)
	}
	if f := Clock(ClockAhead, "20 years"); f.Code != "H2" || !strings.HasSuffix(f.Technician, "(20 years)") {
		t.Errorf("%+v", f)
	}
	if Clock("well", "") != nil {
		t.Error("a clock that is well has words")
	}
	if f := Limits(LimitsOver, "since 2027-01-01"); f.Code != "R1" || !strings.HasSuffix(f.Technician, "(since 2027-01-01)") {
		t.Errorf("%+v", f)
	}
	if Limits("well", "") != nil {
		t.Error("limits that are well have words")
	}
	if f := Ledger(LedgerFull, nil); strings.Contains(f.Technician, "3 MB") {
		t.Error("what was found once has stayed")
	}
}
