package health

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"grattoir/device/terminal"
)

// TestFindingsAreJudgedAndSayWhatToDo: each fact that was seen gives its state, names what
// it is about, and a finding says what to do and which code the clerk reads.
func TestFindingsAreJudgedAndSayWhatToDo(t *testing.T) {
	noon := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	denied := fmt.Errorf("open x: %w", fs.ErrPermission)
	gone := errors.New("gone")
	for _, test := range []struct {
		name  string
		check Check
		state State
		want  string
		fault string
	}{
		{"configuration", Config("t.toml", nil), OK, "t.toml", ""},
		{"configuration that is wrong", Config("t.toml", errors.New("t.toml:1:1: unknown key\n  and more")), Fail, "unknown key and more", ""},
		{"configuration that is elsewhere", Config("t.toml", fmt.Errorf("configuration: %w", &fs.PathError{Op: "open", Path: "t.toml", Err: fs.ErrNotExist})), Fail, "t.toml does not exist", ""},
		{"configuration of others", Config("t.toml", denied), Skipped, "cannot be seen", ""},
		{"daemon up", Daemon(DaemonUp, "s", nil), OK, "at s", ""},
		{"daemon down", Daemon(DaemonDown, "s", gone), Warn, "down", ""},
		{"daemon silent", Daemon(DaemonSilent, "s", gone), Fail, "gone", ""},
		{"ledger whole", LedgerState(LedgerFacts{Entries: 3, Claims: 2, Head: "1-000003"}), OK, "3 entries, 2 payments, newest 1-000003", ""},
		{"ledger of a daemon", LedgerState(LedgerFacts{Head: "1-000003"}), OK, "can be recorded", ""},
		{"ledger empty", LedgerState(LedgerFacts{}), OK, "empty", ""},
		{"ledger partly walked", LedgerState(LedgerFacts{Partly: true, Head: "1-000003"}), OK, "journal verify", ""},
		{"ledger not made yet", LedgerState(LedgerFacts{Absent: true, Path: "l"}), Skipped, "first start", ""},
		{"ledger damaged", LedgerState(LedgerFacts{Class: LedgerDamaged, Err: gone}), Fail, "L3", "L3"},
		{"ledger of others", LedgerState(LedgerFacts{Class: LedgerReadOnly, Err: denied}), Skipped, "cannot be seen", ""},
		{"ledger full by the daemon's word", LedgerState(LedgerFacts{Fault: Ledger(LedgerFull, nil)}), Fail, "L1", "L1"},
		{"ledger that is being audited", LedgerState(LedgerFacts{Fault: Ledger(LedgerAudit, nil)}), Warn, "L7", "L7"},
		{"blocks", Blocks("m", []BlockFacts{{File: "a", Tickets: 5}, {File: "b", Tickets: 6}}, nil), OK, "2 blocks, 11 tickets", ""},
		{"no block", Blocks("m", nil, nil), Warn, "no block", ""},
		{"block damaged", Blocks("m", []BlockFacts{{File: "a", Err: gone}, {File: "b"}}, nil), Fail, "1 of 2 cannot be used: a: gone", ""},
		{"block locked", Blocks("m", []BlockFacts{{File: "a", Note: "its pepper is not here"}}, nil), Fail, "pepper", ""},
		{"blocks of others", Blocks("m", nil, denied), Skipped, "cannot be seen", ""},
		{"limits by the daemon", Policies(PolicyFacts{Version: "v", Source: "signed", Signed: 1}, nil), OK, "version v holds, from: signed; 1 signed policy", ""},
		{"limits over", Policies(PolicyFacts{Fault: Limits(LimitsOver, "x")}, nil), Fail, "R1", "R1"},
		{"limits unusable", Policies(PolicyFacts{Unusable: map[string]error{"p": gone}}, nil), Fail, "p: gone", ""},
		{"limits of the configuration", Policies(PolicyFacts{}, nil), OK, "configuration", ""},
		{"keys", Keys([]KeyFile{{Path: "p", Mode: 0o644}, {Path: "s", Secret: true, Mode: 0o600}}), OK, "2 files", ""},
		{"key open to the group", Keys([]KeyFile{{Path: "s", Secret: true, Mode: 0o640}}), Fail, "0640", ""},
		{"key gone", Keys([]KeyFile{{Path: "p", Err: gone}}), Fail, "gone", ""},
		{"keys of others", Keys([]KeyFile{{Path: "p", Err: denied}}), Skipped, "1 key file", ""},
		{"certificate alone", Certificate(true, time.Time{}, noon, nil), Skipped, "alone", ""},
		{"certificate", Certificate(false, noon.AddDate(0, 1, 0), noon, nil), OK, "2026-12-30", ""},
		{"certificate ends soon", Certificate(false, noon.AddDate(0, 0, 13), noon, nil), Warn, "2026-12-13", ""},
		{"waits for its first certificate", Certificate(false, time.Time{}, noon, nil), Warn, "waits", ""},
		{"certificate over", Certificate(false, noon, noon, nil), Fail, "ended on 2026-11-30", ""},
		{"not enrolled", Certificate(false, time.Time{}, noon, gone), Fail, "gone", ""},
		{"clock", ClockState(noon, time.Time{}, nil), OK, "2026-11-30 12:00:00 UTC", ""},
		{"clock of a Pi with no battery", ClockState(time.Unix(0, 0), time.Time{}, nil), Fail, "H1", "H1"},
		{"clock before the certificate", ClockState(noon, noon.AddDate(0, 0, 1), nil), Fail, "H1", "H1"},
		{"clock in another age", ClockState(noon.AddDate(30, 0, 0), time.Time{}, nil), Fail, "H2", "H2"},
		{"clock by the daemon's word", ClockState(noon, time.Time{}, Clock(ClockStepped, "x")), Fail, "H3", "H3"},
		{"central alone", Central(CentralFacts{Alone: true}), Skipped, "alone", ""},
		{"central", Central(CentralFacts{Host: "h:1", Contact: noon}), OK, "last answered the daemon at 2026-11-30", ""},
		{"central does not resolve", Central(CentralFacts{Host: "h:1", Lookup: gone}), Skipped, "does not resolve", ""},
		{"central does not answer", Central(CentralFacts{Host: "h:1", Dial: gone}), Skipped, "does not answer", ""},
		{"central refuses", Central(CentralFacts{Host: "h:1", Refused: &terminal.Fault{Code: "C4", Technician: "suspended"}}), Fail, "C4: suspended", "C4"},
		{"no pins", Pins(0, nil), Skipped, "no pin", ""},
		{"pins", Pins(2, nil), OK, "2 pins", ""},
		{"a pin is away", Pins(2, []terminal.Fault{{Code: "G3", ClerkEN: "A lamp\nis away.", Technician: "look"}}), Fail, "G3: A lamp is away.", "G3"},
	} {
		c := test.check
		if c.State != test.state || !strings.Contains(c.Detail, test.want) || c.Fault != test.fault || c.Name == "" {
			t.Errorf("%s: %+v", test.name, c)
		}
		if (c.State == Fail || c.State == Warn || c.Unseen) && c.Hint == "" || strings.Contains(c.Detail+c.Hint, "\n") {
			t.Errorf("%s says not what to do, or not on one line: %+v", test.name, c)
		}
		if c.Unseen != strings.Contains(c.Detail, "cannot be seen") {
			t.Errorf("%s: unseen %v: %s", test.name, c.Unseen, c.Detail)
		}
	}
}

func TestMarkIsNoTicketAndNeverTheSame(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		m, err := NewMark()
		if err != nil || !IsMark(m) || seen[m] || strings.ContainsAny(m, "0123456789") {
			t.Fatalf("%q, %v", m, err)
		}
		seen[m] = true
	}
	for _, text := range []string{"", "GRATTOIR-TEST-", "1003990000123017419283746501928374650174", "GRATTOIR-TEST-ABCDEFGHJ1", "GRATTOIR-TEST-ABCDEFGHJKK", "\rGRATTOIR-TEST-ABCDEFGHJK"} {
		if IsMark(text) {
			t.Errorf("%q passes for a mark", text)
		}
	}
}
