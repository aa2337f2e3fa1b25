package update

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Phase is where an update stands.
type Phase string

const (
	Idle       Phase = "idle"
	Copying    Phase = "copying"    // the bundle comes into the agent's folder
	Installing Phase = "installing" // RAUC writes the spare slot
	Waiting    Phase = "waiting"    // installed; the restart waits for an idle counter
	Trying     Phase = "trying"     // it runs, and the health gate has not spoken
)

// Outcome is what came of an update.
type Outcome string

const (
	Good       Outcome = "good"        // it runs, and is the one to fall back from no more
	RolledBack Outcome = "rolled-back" // it ran or should have, and the one before runs again
	Failed     Outcome = "failed"      // it could not be installed
	Refused    Outcome = "refused"     // by a rule, before anything was written
	Withdrawn  Outcome = "withdrawn"   // central or the technician took it back
)

// State is what the agent knows, whole. It is one file, which anybody on the machine may
// read: the daemon tells central by it.
type State struct {
	Format  int      `json:"v"`
	Running Release  `json:"running"`
	Best    int64    `json:"best"`  // highest number that ran well here: an update must be above it
	Floor   int64    `json:"floor"` // nothing below it is ever booted again
	Phase   Phase    `json:"phase"`
	Update  *Pending `json:"update,omitempty"` // nil while idle
	Last    *Result  `json:"last,omitempty"`   // of the newest update that ended
	// Bad are the bundles that failed here, by hash, the newest last. They are not tried again
	// unless a technician asks for it.
	Bad   []string `json:"bad,omitempty"`
	Slots []Slot   `json:"slots,omitempty"`
	Fault string   `json:"fault,omitempty"` // what is wrong with the two slots, for a technician
}

// Pending is an update that is on its way.
type Pending struct {
	Version  string    `json:"version"`
	Number   int64     `json:"number"`
	Floor    int64     `json:"floor"`
	SHA256   string    `json:"sha256"`
	Size     int64     `json:"size"`
	Source   Source    `json:"source"`
	Inbox    string    `json:"inbox"` // path of its manifest there
	Began    time.Time `json:"began"`
	Percent  int       `json:"percent"`            // of the present phase, for people
	Why      string    `json:"why,omitempty"`      // it waits
	Boot     string    `json:"boot,omitempty"`     // start of the machine in which it was installed, or is tried
	Slot     string    `json:"slot,omitempty"`     // that it is in
	From     int64     `json:"from,omitempty"`     // number that ran before
	Well     []string  `json:"well,omitempty"`     // what worked before, see wellBefore
	Installs int       `json:"installs,omitempty"` // begun
	Trials   int       `json:"trials,omitempty"`   // that ended without a verdict
	Verdict  string    `json:"verdict,omitempty"`  // why the health gate has rejected it
}

// Result is what came of an update.
type Result struct {
	Version string    `json:"version"`
	Number  int64     `json:"number"`
	SHA256  string    `json:"sha256"`
	Outcome Outcome   `json:"outcome"`
	Reason  string    `json:"reason,omitempty"`
	At      time.Time `json:"at"`
}

// StateFile is the state's name in the agent's folder.
const StateFile = "state.json"

const maxState = 64 << 10

// ReadState reads the state of an agent's folder; fs.ErrNotExist before its first start.
func ReadState(dir string) (State, error) {
	var s State
	path := filepath.Join(dir, StateFile)
	text, err := readBounded(path, maxState)
	if errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err == nil && (s.Format != 1 || s.Phase != Idle && s.Update == nil || s.Best < 0 || s.Floor < 0) {
		err = errors.New("it is of another program")
	}
	if err != nil {
		return s, fmt.Errorf("%w: %s: %w", ErrState, path, err)
	}
	return s, nil
}

// save makes the state durable: whole or not at all, and in its folder.
func (a *Agent) save(edit func(*State)) error {
	next := a.state.clone()
	edit(&next)
	text, err := json.MarshalIndent(next, "", "  ")
	if err != nil {
		return err
	}
	if err := writeWhole(filepath.Join(a.opt.Dir, StateFile), append(text, '\n')); err != nil {
		return fmt.Errorf("the update state cannot be stored: %w", err)
	}
	a.state = next
	return nil
}

// clone is a copy that shares nothing that is changed.
func (s State) clone() State {
	if s.Update != nil {
		s.Update = new(*s.Update)
		s.Update.Well = slices.Clone(s.Update.Well)
	}
	if s.Last != nil {
		s.Last = new(*s.Last)
	}
	s.Bad, s.Slots = slices.Clone(s.Bad), slices.Clone(s.Slots)
	return s
}

// writeWhole writes a file durably, whole or not at all.
func writeWhole(path string, text []byte) error {
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return renameWhole(path+".new", path)
}

// renameWhole moves a file within its folder, durably.
func renameWhole(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return syncDir(filepath.Dir(to))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// lock keeps a second agent out of the folder until it is closed, or the program ends.
func lock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("%w in %s", ErrRunning, dir), f.Close())
	}
	return f, nil
}

// Alive tells whether an agent works in a folder.
func Alive(dir string) bool {
	f, err := lock(dir)
	if err == nil {
		_ = f.Close()
	}
	return errors.Is(err, ErrRunning)
}
