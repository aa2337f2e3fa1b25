package health

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"grattoir/device/terminal"
)

// Config is the check of the configuration file: err is why it cannot be used.
func Config(path string, err error) Check {
	c := About(CheckConfig)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return c.fail("name the file with --config; terminald --example prints one to begin with", "%s does not exist", path)
	case err != nil:
		return c.missing(path, err, "mend what is named, then: terminald --config "+path)
	}
	return c.ok("%s: every key is known and can work", path)
}

// Daemon is the check of the daemon: state is DaemonUp, DaemonDown or DaemonSilent, why
// what the socket said.
func Daemon(state, socket string, why error) Check {
	c := About(CheckDaemon)
	switch state {
	case DaemonUp:
		return c.ok("terminald answers at %s", socket)
	case DaemonSilent:
		return c.fail("wait for its start; else look at its log, then restart it", "terminald has its ledger and does not answer at %s: %s", socket, reason(why))
	}
	return c.warn("systemctl status terminald", "terminald is down, no ticket can be checked; the doctor looks by itself")
}

// LedgerFacts are what was seen of the ledger.
type LedgerFacts struct {
	Path    string
	Class   Class // of what keeps it from taking payments, "" for nothing
	Err     error // why it cannot be opened or is not whole
	Fault   *terminal.Fault
	Head    string // newest entry's number
	Entries int64
	Claims  int64
	Partly  bool // the time was over before the whole chain was seen
	Absent  bool // there is none, and nothing says that there was one
}

// LedgerState is the check of the ledger.
func LedgerState(f LedgerFacts) Check {
	c := About(CheckLedger)
	if f.Err != nil && f.Fault == nil {
		if errors.Is(f.Err, fs.ErrPermission) {
			return c.Hidden(f.Path)
		}
		f.Fault = Ledger(f.Class, f.Err)
	}
	switch {
	case f.Absent:
		return c.Skip("%s does not exist yet: the first start of terminald makes it", f.Path)
	case f.Fault != nil:
		c = c.fail(f.Fault.Technician, "%s: %s", f.Fault.Code, oneLine(f.Fault.ClerkEN))
		c.Fault = f.Fault.Code
		if f.Fault.Code == ledgers[LedgerAudit].Code || f.Fault.Code == ledgers[LedgerTraining].Code {
			c.State = Warn // it ends by itself, or somebody wanted it
		}
		return c
	case f.Partly:
		return c.ok("its newest entry is %s; the chain is whole as far as the time went: terminalctl journal verify sees all of it", f.Head)
	case f.Entries > 0:
		return c.ok("the chain is whole: %s, %s, newest %s", count(int(f.Entries), "entry", "entries"), count(int(f.Claims), "payment", "payments"), f.Head)
	case f.Head == "":
		return c.ok("it is whole and empty")
	}
	return c.ok("payments can be recorded, its newest entry is %s", f.Head)
}

// BlockFacts are what was seen of one file in the folder of manifests.
type BlockFacts struct {
	File    string
	Game    string
	Tickets int64
	Err     error  // why its header cannot be used, or what is damaged
	Note    string // what keeps it from answering: a pepper that is missing, another file
}

// Blocks is the check of the manifests.
func Blocks(dir string, list []BlockFacts, err error) Check {
	c := About(CheckBlocks)
	if err != nil {
		return c.missing(dir, err, "make the folder, or correct data in the configuration")
	}
	var bad []string
	tickets := int64(0)
	for _, b := range list {
		switch {
		case b.Err != nil:
			bad = append(bad, b.File+": "+reason(b.Err))
		case b.Note != "":
			bad = append(bad, b.File+": "+b.Note)
		default:
			tickets += b.Tickets
		}
	}
	switch {
	case len(bad) > 0:
		return c.fail("terminalctl manifest verify names what is wrong; bring the file again or take it away", "%d of %d cannot be used: %s", len(bad), len(list), strings.Join(bad[:min(3, len(bad))], "; "))
	case len(list) == 0:
		return c.warn("terminalctl manifest import, or activate packs at central", "no block lies in %s: every ticket is an unknown game", dir)
	}
	return c.ok("%s, %d tickets, their signed headers verify", count(len(list), "block", "blocks"), tickets)
}

// PolicyFacts are what was seen of the limits.
type PolicyFacts struct {
	Version  string // of the one in force, "" for not known
	Source   string // of it: signed, configuration or none; "" where nobody is there to choose
	Signed   int    // files of signed ones that can be used
	Unusable map[string]error
	Fault    *terminal.Fault
}

// Policies is the check of the limits.
func Policies(f PolicyFacts, err error) Check {
	c := About(CheckPolicies)
	switch {
	case err != nil:
		return c.missing("the folder of policies", err, "look at its owner and mode")
	case f.Fault != nil:
		c = c.fail(f.Fault.Technician, "%s: %s", f.Fault.Code, oneLine(f.Fault.ClerkEN))
		c.Fault = f.Fault.Code
		return c
	case len(f.Unusable) > 0:
		var names []string
		for name, why := range f.Unusable {
			names = append(names, name+": "+reason(why))
		}
		return c.fail("bring the file again or take it away", "cannot be used: %s", strings.Join(sorted(names), "; "))
	case f.Version != "":
		return c.ok("version %s holds, from: %s; %s here", f.Version, f.Source, count(f.Signed, "signed policy", "signed policies"))
	case f.Signed > 0:
		return c.ok("%s here can be used", count(f.Signed, "signed policy", "signed policies"))
	}
	return c.ok("no signed policy is here: the configuration's limits hold")
}

// KeyFile is one file of a key, secret or public.
type KeyFile struct {
	Path   string
	Secret bool
	Mode   fs.FileMode
	Err    error // why it cannot be used
}

// Keys is the check of the key files and of what else others must not read.
func Keys(files []KeyFile) Check {
	c := About(CheckKeys)
	var said, hints []string
	unseen := 0
	for _, f := range files {
		switch {
		case errors.Is(f.Err, fs.ErrPermission):
			unseen++
		case f.Err != nil:
			said, hints = append(said, reason(f.Err)), append(hints, "bring "+filepath.Base(f.Path)+" again")
		case f.Secret && f.Mode.Perm()&0o077 != 0:
			said = append(said, fmt.Sprintf("%s has mode %04o: others can read it", f.Path, f.Mode.Perm()))
			hints = append(hints, "chmod 600 "+f.Path+", and take a new one if somebody may have read it")
		}
	}
	switch {
	case len(said) > 0:
		return c.fail(strings.Join(hints, "; "), "%s", strings.Join(said, "; "))
	case unseen > 0:
		return c.Hidden(count(unseen, "key file", "key files"))
	}
	return c.ok("%s: each is what it should be and no secret is open to others", count(len(files), "file", "files"))
}

// Certificate is the check of a linked terminal's identity; ends is zero while it waits for
// its first certificate. now is the newest time that can be believed.
func Certificate(alone bool, ends, now time.Time, err error) Check {
	c := About(CheckCertificate)
	const soon = 14 * 24 * time.Hour
	switch {
	case alone:
		return c.Skip("this terminal stands alone and has none")
	case err != nil:
		return c.missing("identity", err, "terminalctl enrol CODE --central URL --data DIR")
	case ends.IsZero():
		return c.warn("see that the terminal reaches central once", "it was enrolled by a file and waits for its certificate; tickets are checked meanwhile")
	case !now.Before(ends):
		return c.fail("let the terminal reach central, where it renews by itself, or enrol it again: terminalctl enrol CODE --again; payments of own packs go on meanwhile", "it ended on %s", ends.UTC().Format(time.DateOnly))
	case ends.Sub(now) < soon:
		return c.warn("see that the terminal reaches central, or enrol it again", "it ends on %s", ends.UTC().Format(time.DateOnly))
	}
	return c.ok("it fits its key and ends on %s", ends.UTC().Format(time.DateOnly))
}

// Written is a time that was over when this program was written: no clock that shows an
// earlier one is right.
func Written() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

// Plausible is how far beyond the newest time known to be over a clock may be that nobody
// has confirmed: a program lives no longer.
const Plausible = 10 * 365 * 24 * time.Hour

// ClockState is the check of the clock: now is what it shows, floor the newest time known
// to be over, fault what the daemon has found.
func ClockState(now, floor time.Time, fault *terminal.Fault) Check {
	c := About(CheckClock)
	if floor.Before(Written()) {
		floor = Written()
	}
	shown := now.UTC().Format(time.DateTime + " UTC")
	if fault == nil {
		switch {
		case now.Before(floor):
			fault = Clock(ClockBehind, "it shows "+shown)
		case now.After(floor.Add(Plausible)):
			fault = Clock(ClockAhead, "it shows "+shown)
		default:
			return c.ok("it shows %s", shown)
		}
	}
	c = c.fail(fault.Technician, "%s: %s", fault.Code, oneLine(fault.ClerkEN))
	c.Fault = fault.Code
	return c
}

// CentralFacts are what was seen of the way to central.
type CentralFacts struct {
	Alone   bool
	Host    string
	Lookup  error           // why its name does not resolve
	Dial    error           // why its port does not answer
	Contact time.Time       // the daemon's last good answer, zero for none or no daemon
	Refused *terminal.Fault // central refuses this terminal, or the journals contradict each other
}

// Central is the check of the way to central. That it is not reached is information: no
// payment waits for it. That it refuses this terminal is a failure.
func Central(f CentralFacts) Check {
	c := About(CheckCentral)
	heard := ""
	if !f.Contact.IsZero() {
		heard = "; it last answered the daemon at " + f.Contact.UTC().Format(time.DateTime+" UTC")
	}
	const hint = "look at cable, router and name service; nothing that is paid waits for it"
	switch {
	case f.Alone:
		return c.Skip("this terminal stands alone")
	case f.Refused != nil:
		c = c.fail("call central operations", "%s: %s", f.Refused.Code, f.Refused.Technician)
		c.Fault = f.Refused.Code
		return c
	case f.Lookup != nil:
		c = c.Skip("%s does not resolve: %s%s", f.Host, reason(f.Lookup), heard)
		c.Hint = hint
		return c
	case f.Dial != nil:
		c = c.Skip("%s does not answer: %s%s", f.Host, reason(f.Dial), heard)
		c.Hint = hint
		return c
	}
	return c.ok("%s resolves and answers%s", f.Host, heard)
}
