// Package update installs signed updates into the spare slot and sees them proven or
// rolled back. It stands above RAUC, which verifies a bundle, writes the slot and keeps the
// boot loader's counters, and adds what RAUC 1.8 has not: versions that only rise, a health
// gate, a restart that interrupts no payment, and a state that survives a cut at any step.
// It never fetches anything and needs no network: updates lie in folders, where central's
// link or a stick has put them. Start at Agent.Step; docs/updating.md is the page for people.
package update

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"grattoir/validate/manifest"
)

// Installer is RAUC. *Rauc is one over D-Bus.
type Installer interface {
	// Compatible is the board that bundles must be for.
	Compatible(ctx context.Context) (string, error)
	// Slots are the root slots, the booted one among them.
	Slots(ctx context.Context) ([]Slot, error)
	// Info verifies a bundle's signature and tells for which board it is.
	Info(ctx context.Context, path string) (compatible, version string, err error)
	// Busy tells whether an installation runs, perhaps of an earlier program.
	Busy(ctx context.Context) (bool, error)
	// Install writes the spare slot and has it booted once, next. It returns when that is done.
	Install(ctx context.Context, path string, progress func(percent int)) error
	// Mark sets a slot, which is "booted" or "other", to a state.
	Mark(ctx context.Context, slot string, m Mark) error
}

// Mark is what RAUC is told of a slot.
type Mark string

const (
	MarkGood Mark = "good" // it has all its tries again
	MarkBad  Mark = "bad"  // it has none, and is out of the order until it is installed anew
)

// The two slots as RAUC's marks name them.
const (
	Booted = "booted"
	Other  = "other"
)

// Slot is one of the root slots.
type Slot struct {
	Name     string `json:"name"`      // as RAUC's configuration has it, rootfs.0
	BootName string `json:"boot_name"` // as the boot loader has it, A or B
	Booted   bool   `json:"booted"`
	Bootable bool   `json:"bootable"` // it has tries left
	Version  string `json:"version"`  // of the bundle installed there, "" where it was flashed
}

// Counter is the daemon that pays.
type Counter interface {
	// Ready tells how it is. The error means that it does not answer.
	Ready(ctx context.Context) (Readiness, error)
	// Pause asks for leave to restart now. Granted, the counter takes no act until the
	// machine restarts, Release, or for the time given. Must is for a version that has failed:
	// it waits for nothing but a payment and its slip. Why says what is in the way.
	Pause(ctx context.Context, d time.Duration, must bool) (granted bool, why string, err error)
	Release(ctx context.Context) error
}

// Readiness is how the daemon is, as it tells itself.
type Readiness struct {
	Active  time.Duration // since it was ready
	Ledger  string        // what is wrong with the ledger, "" for open, written to and verified
	Pending bool          // the ledger is still being verified
	Devices []string      // configured devices that are there, by name
}

// Release is the software that runs, as the image says it.
type Release struct {
	Version string `json:"version"`
	Number  int64  `json:"number"`
	Board   string `json:"board"`
}

// Options make an agent.
type Options struct {
	Dir       string  // its own folder, on the data partition
	Inboxes   []Inbox // where updates are looked for
	Keys      manifest.Keys
	Running   Release
	Installer Installer
	Counter   Counter
	// Restart restarts the machine. It may return before that happens.
	Restart func(ctx context.Context) error
	Boot    string               // names this start of the machine
	Uptime  func() time.Duration // since the machine's start
	Now     func() time.Time     // for people alone: nothing is decided by it
	Reserve int64                // bytes of the disk that copies leave free
	Log     *slog.Logger         // nil for none
	// Step, when set, is called after each durable or visible step, with its name. Crash
	// tests end the program there.
	Step func(name string)
}

// Inbox is a folder of updates and who brings them.
type Inbox struct {
	Dir    string
	Source Source
}

// Source is who brought an update.
type Source string

const (
	Stick   Source = "stick"   // a technician
	Central Source = "central" // it takes back what it no longer offers
)

// Times of the health gate and of the restart.
const (
	settled     = 30 * time.Second // that the daemon must have been active
	gateLimit   = 8 * time.Minute  // after the machine's start: not healthy by then is not healthy
	pauseFor    = 2 * time.Minute  // of the counter, while the machine goes down
	lookEvery   = 15 * time.Second
	askEvery    = 20 * time.Second // whether the counter is idle
	gateEvery   = 3 * time.Second
	silences    = 3 // of a sick daemon, at askEvery
	maxInstalls = 3 // of one update, before it is given up
	maxTrials   = 2 // a power cut may look like a version that does not come up
)

// Why an update is not installed. The texts are for people; central gets them too.
var (
	// ErrBoard means a bundle for other boards.
	ErrBoard = errors.New("it is for another board")
	// ErrOld means a number that is not above what ran well here: an update never goes back.
	ErrOld = errors.New("it is not newer than what runs here")
	// ErrTried means an update that failed here before.
	ErrTried = errors.New("it failed on this terminal before")
	// ErrBundle means a bundle that is not the one that was signed for.
	ErrBundle = errors.New("the bundle is not the one that the signed manifest names")
	// ErrNoSpace means that the disk has no room for the bundle beside the reserve.
	ErrNoSpace = errors.New("the disk has no room for the bundle")
	// ErrState means that the agent's own state cannot be read: which versions are too old
	// is not known then, so nothing is installed.
	ErrState = errors.New("the update state cannot be read")
	// ErrRunning means that another agent works in the folder.
	ErrRunning = errors.New("another update agent is running")
)
