package health

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"
)

// State is how a check ended.
type State string

const (
	// OK is as it should be.
	OK State = "ok"
	// Warn works now, and a person should look before it does not.
	Warn State = "warn"
	// Fail does not work: a person is needed.
	Fail State = "fail"
	// Skipped was not judged: it is not there, not asked for, or could not be seen.
	Skipped State = "skipped"
)

// Check is one thing that was looked at. Its texts are for technicians, in English, one
// line each, and hold no code, no PIN and no key.
type Check struct {
	Code   string `json:"code"`  // D1 ... for the doctor, T1 ... for the self-test; never renumbered
	Name   string `json:"name"`  // what was looked at
	State  State  `json:"state"` // ok, warn, fail or skipped
	Detail string `json:"detail"`
	Hint   string `json:"hint"`             // what to do, "" for nothing
	Fault  string `json:"fault,omitempty"`  // the code of the fault that the clerk sees, if there is one
	Unseen bool   `json:"unseen,omitempty"` // skipped because this user may not look: nothing is known
}

// Report is what a doctor or a self-test found.
type Report struct {
	Terminal string    `json:"terminal"` // "" where the configuration could not be read
	Program  string    `json:"program"`
	At       time.Time `json:"at"`
	Daemon   string    `json:"daemon"` // up, down, or silent: it has its ledger and does not answer
	State    State     `json:"state"`  // the worst of the checks, skipped ones left out
	Unseen   int       `json:"unseen"` // checks that this user may not make
	Checks   []Check   `json:"checks"`
}

// How the daemon was found.
const (
	DaemonUp     = "up"
	DaemonDown   = "down"
	DaemonSilent = "silent"
)

// Add takes checks into the report. Those without a code are left out.
func (r *Report) Add(checks ...Check) {
	for _, c := range checks {
		if c.Code == "" {
			continue
		}
		r.Checks = append(r.Checks, c)
		if c.Unseen {
			r.Unseen++
		}
		if r.State == "" || c.State.weight() > r.State.weight() {
			r.State = c.State
		}
	}
}

// Findings counts what a person should look at.
func (r *Report) Findings() (n int) {
	for _, c := range r.Checks {
		if c.State == Warn || c.State == Fail {
			n++
		}
	}
	return n
}

func (s State) weight() int { return slices.Index([]State{Skipped, OK, Warn, Fail}, s) }

// The doctor's checks. A code is read out by phone, so it never changes its meaning.
const (
	CheckConfig      = "D1"
	CheckDaemon      = "D2"
	CheckFolder      = "D3"
	CheckSpace       = "D4"
	CheckFileSystem  = "D5"
	CheckLedger      = "D6"
	CheckBlocks      = "D7"
	CheckPolicies    = "D8"
	CheckKeys        = "D9"
	CheckCertificate = "D10"
	CheckClock       = "D11"
	CheckTimeSync    = "D12"
	CheckScanner     = "D13"
	CheckPrinter     = "D14"
	CheckPorts       = "D15"
	CheckGPIO        = "D16"
	CheckUSB         = "D17"
	CheckMemory      = "D18"
	CheckHeat        = "D19"
	CheckPower       = "D20"
	CheckCentral     = "D21"
)

// Meaning is a check's or a step's row of the table of codes.
type Meaning struct{ Code, Name, Text string }

// Examinations are the doctor's checks in their order.
func Examinations() []Meaning {
	return []Meaning{
		{CheckConfig, "configuration", "terminald's configuration file is there, every key of it is known and every value can work"},
		{CheckDaemon, "daemon", "terminald answers at its socket; when it is down the doctor looks by itself"},
		{CheckFolder, "data folder", "the folder of the ledger is there and belongs to one user who can write it"},
		{CheckSpace, "free space", "the disk of the data folder has more free than the ledger's reserve"},
		{CheckFileSystem, "file system", "the data folder's file system can be written, keeps what is written and reports no errors; the card is not worn out"},
		{CheckLedger, "ledger", "the ledger can be opened, its chain is whole, and payments can be recorded"},
		{CheckBlocks, "blocks", "the manifests are there and their signed headers verify"},
		{CheckPolicies, "limits", "the signed policies can be used and one of them, or the configuration, holds"},
		{CheckKeys, "keys", "the key files are there, are what they should be, and secret ones are readable by their owner alone"},
		{CheckCertificate, "certificate", "the terminal is enrolled, its certificate fits its key and has not ended"},
		{CheckClock, "clock", "the clock shows no time that is over and none that cannot be yet"},
		{CheckTimeSync, "time from the network", "the clock is kept by the network's time; whether there is a clock chip"},
		{CheckScanner, "scanner", "the scanner's port is there, may be opened and works"},
		{CheckPrinter, "printer", "the printer's port is there, may be opened, and the printer is ready"},
		{CheckPorts, "others on the ports", "no other program or console has the scanner's or the printer's port"},
		{CheckGPIO, "pins", "the board's pins that the configuration names can be used"},
		{CheckUSB, "USB", "what is plugged in, and whether a socket had to cut the current"},
		{CheckMemory, "memory", "there is memory left and no program was ended for lack of it"},
		{CheckHeat, "temperature", "the processor is not too hot"},
		{CheckPower, "supply", "the supply's voltage has not dropped (Raspberry Pi)"},
		{CheckCentral, "central", "central's name resolves and its port answers; for information, no payment waits for it"},
	}
}

// About is a check that has not been judged.
func About(code string) Check {
	c := Check{Code: code, State: Skipped}
	for _, m := range slices.Concat(Examinations(), Trials()) {
		if m.Code == code {
			c.Name = m.Name
		}
	}
	return c
}

func (c Check) ok(format string, args ...any) Check {
	c.State, c.Detail = OK, fmt.Sprintf(format, args...)
	return c
}

func (c Check) warn(hint, format string, args ...any) Check {
	c.State, c.Hint, c.Detail = Warn, hint, fmt.Sprintf(format, args...)
	return c
}

func (c Check) fail(hint, format string, args ...any) Check {
	c.State, c.Hint, c.Detail = Fail, hint, fmt.Sprintf(format, args...)
	return c
}

// Skip leaves the check unjudged and says why.
func (c Check) Skip(format string, args ...any) Check {
	c.State, c.Detail = Skipped, fmt.Sprintf(format, args...)
	return c
}

// Hidden leaves it unjudged because this user may not look.
func (c Check) Hidden(what string) Check {
	c = c.Skip("%s cannot be seen by this user", what)
	c.Unseen, c.Hint = true, "run the doctor as the daemon's user or with sudo"
	return c
}

// missing is an error of looking: not permitted is not known, anything else is a failure.
func (c Check) missing(what string, err error, hint string) Check {
	if errors.Is(err, fs.ErrPermission) {
		return c.Hidden(what)
	}
	return c.fail(hint, "%s: %s", what, reason(err))
}

// reason is an error on one line, cut where it is long.
func reason(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	if runes := []rune(text); len(runes) > 300 {
		text = string(runes[:300]) + "..."
	}
	return text
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}
