package update

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Agent takes one update after the other from its folders to the slot that runs. Its
// methods are for one goroutine.
type Agent struct {
	opt    Options
	state  State
	held   *os.File
	silent int             // times in a row that the daemon did not answer before a restart
	told   map[string]bool // refused bundles of which people were told
}

// New opens the agent's folder and settles what a restart of the machine has decided.
func New(ctx context.Context, o Options) (_ *Agent, err error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Step == nil {
		o.Step = func(string) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Dir, err = filepath.Abs(o.Dir); err != nil { // RAUC is told where the bundle lies
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(o.Dir, bundlesDir), 0o755); err != nil {
		return nil, err
	}
	a := &Agent{opt: o, told: map[string]bool{}}
	if a.held, err = lock(o.Dir); err != nil {
		return nil, err
	}
	ready := false
	defer func() {
		if !ready {
			err = errors.Join(err, a.Close())
		}
	}()
	a.state, err = ReadState(o.Dir)
	if errors.Is(err, fs.ErrNotExist) { // a card that was flashed: what runs is what it began with
		a.state, err = State{Format: 1, Best: o.Running.Number, Phase: Idle}, nil
	}
	if err != nil {
		return nil, err
	}
	err = a.arrive(ctx)
	ready = err == nil
	return a, err
}

// Close lets another agent work in the folder.
func (a *Agent) Close() error { return a.held.Close() }

// State is what the agent knows.
func (a *Agent) State() State { return a.state.clone() }

// Run works until ctx ends.
func (a *Agent) Run(ctx context.Context) error {
	said := ""
	for ctx.Err() == nil {
		wait, err := a.Step(ctx)
		if text := fmt.Sprint(err); err != nil && text != said && ctx.Err() == nil {
			a.opt.Log.Error("update", "phase", a.state.Phase, "err", err)
			said = text
		} else if err == nil {
			said = ""
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
	return nil
}

// Step does the next piece of work and says how long it is to be left alone then. After
// an error it is tried again.
func (a *Agent) Step(ctx context.Context) (wait time.Duration, err error) {
	if p := a.state.Update; p != nil && a.state.Phase != Trying && p.Source == Central {
		if _, err := os.Stat(p.Inbox); errors.Is(err, fs.ErrNotExist) {
			return 0, a.withdraw(ctx, "central offers it no more")
		}
	}
	switch a.state.Phase {
	case Copying:
		return a.fetch(ctx)
	case Installing:
		return a.install(ctx)
	case Waiting:
		return a.restart(ctx)
	case Trying:
		return a.judge(ctx)
	}
	return a.choose(ctx)
}

// arrive holds what runs against what was meant to run.
func (a *Agent) arrive(ctx context.Context) error {
	slots, err := a.opt.Installer.Slots(ctx)
	if err != nil {
		return err
	}
	here := booted(slots)
	p := a.state.Update
	switch newBoot := p != nil && p.Boot != "" && p.Boot != a.opt.Boot; {
	case p == nil && a.opt.Running.Number > a.state.Best: // somebody else installed it: it must prove itself all the same
		err = a.save(func(s *State) {
			s.Phase = Trying
			s.Update = &Pending{Version: a.opt.Running.Version, Number: a.opt.Running.Number, Source: Stick, Began: a.opt.Now().UTC().Truncate(time.Second),
				Boot: a.opt.Boot, Slot: here.Name, From: s.Running.Number, Well: []string{ledgerWell}}
		})
	case p == nil || a.state.Phase == Copying:
	case newBoot && here.Name == p.Slot && a.opt.Running.Number == p.Number:
		err = a.save(func(s *State) { s.Phase, s.Update.Boot, s.Update.Why = Trying, a.opt.Boot, "" })
	case newBoot && a.state.Phase != Installing:
		err = a.fellBack()
	}
	if err != nil {
		return err
	}
	if err := a.save(func(s *State) { s.Running, s.Slots, s.Fault = a.opt.Running, slots, a.faultOf(slots) }); err != nil {
		return err
	}
	a.opt.Step("arrived")
	if a.state.Update == nil { // an end that was cut off before this
		if err := removeIfThere(a.trial()); err != nil {
			return err
		}
	}
	if a.state.Phase == Trying || a.opt.Running.Number < a.state.Floor {
		return nil // it has still to prove itself, or may not run here at all
	}
	return a.opt.Installer.Mark(ctx, Booted, MarkGood) // it had proven itself: all its tries again
}

func (a *Agent) faultOf(slots []Slot) string {
	spare := spareOf(slots)
	switch {
	case a.opt.Running.Number < a.state.Floor:
		return fmt.Sprintf("number %d runs, and the floor is %d: install a newer one, or flash the card", a.opt.Running.Number, a.state.Floor)
	case spare.Name == "":
		return "RAUC knows of no spare slot"
	case !spare.Bootable:
		return fmt.Sprintf("slot %s cannot be booted until the next good installation: there is nothing to fall back to", spare.BootName)
	}
	return ""
}

func booted(slots []Slot) Slot {
	if i := slices.IndexFunc(slots, func(s Slot) bool { return s.Booted }); i >= 0 {
		return slots[i]
	}
	return Slot{}
}

func spareOf(slots []Slot) Slot {
	if i := slices.IndexFunc(slots, func(s Slot) bool { return !s.Booted }); i >= 0 {
		return slots[i]
	}
	return Slot{}
}

// fellBack notes that the boot loader went back to the version before. One that was
// rejected is not tried again; one that only did not come up may have met a power cut.
func (a *Agent) fellBack() error {
	p := a.state.Update
	if p.Verdict == "" && p.Trials+1 < maxTrials && p.SHA256 != "" {
		a.opt.Log.Warn("the update did not come up; it is installed once more", "version", p.Version)
		return a.save(func(s *State) {
			s.Phase, s.Update.Boot, s.Update.Trials, s.Update.Installs = Installing, "", p.Trials+1, 0
		})
	}
	why := p.Verdict
	if why == "" {
		why = fmt.Sprintf("it did not come up in %d starts", maxTrials)
	}
	return a.end(RolledBack, why)
}

// end stores what came of the update and is idle.
func (a *Agent) end(o Outcome, why string, also ...func(*State)) error {
	p := a.state.Update
	a.opt.Log.Info("update ended", "version", p.Version, "number", p.Number, "outcome", o, "why", why)
	err := a.save(func(s *State) {
		s.Phase, s.Update = Idle, nil
		s.Last = &Result{p.Version, p.Number, p.SHA256, o, clip(why), a.opt.Now().UTC().Truncate(time.Second)}
		if o != Good && o != Withdrawn && p.SHA256 != "" { // whoever offers it goes on doing so
			s.Bad = append(slices.DeleteFunc(s.Bad, func(sum string) bool { return sum == p.SHA256 }), p.SHA256)
			s.Bad = s.Bad[max(0, len(s.Bad)-20):]
		}
		for _, edit := range also {
			edit(s)
		}
	})
	a.opt.Step("ended")
	if err != nil {
		return err
	}
	return errors.Join(a.tidy(""), a.taken(p), removeIfThere(a.trial()))
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// taken removes from the stick's inbox what was handed over and is done with.
func (a *Agent) taken(p *Pending) error {
	if p.Source != Stick || p.Inbox == "" {
		return nil
	}
	var errs []error
	for _, path := range []string{p.Inbox, strings.TrimSuffix(p.Inbox, ManifestSuffix) + BundleSuffix} {
		errs = append(errs, removeIfThere(path))
	}
	return errors.Join(errs...)
}

// maxReason bounds what is told to central, in bytes.
const maxReason = 200

func clip(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	for len(text) > maxReason {
		text = text[:strings.LastIndexFunc(text[:maxReason+1], func(rune) bool { return true })]
	}
	return text
}

// Judge is nil for an update that may be installed on a terminal in a state. The errors
// are ErrBoard, ErrOld and ErrTried.
func Judge(m Manifest, s State) error {
	switch newest := max(s.Best, s.Running.Number, s.Floor-1); {
	case m.Board != s.Running.Board:
		return fmt.Errorf("%w: for %s, this is a %s", ErrBoard, m.Board, s.Running.Board)
	case m.Number <= newest:
		return fmt.Errorf("%w: it is number %d, number %d ran well on this terminal, and an update never goes back", ErrOld, m.Number, newest)
	case slices.Contains(s.Bad, m.SHA256):
		return fmt.Errorf("%w; terminalctl update install --again tries it once more", ErrTried)
	}
	return nil
}

// choose looks for an update that may be installed. What may not is told once.
func (a *Agent) choose(ctx context.Context) (time.Duration, error) {
	var errs []error
	for _, in := range a.opt.Inboxes {
		list, bad := Look(in.Dir, a.opt.Keys)
		errs = append(errs, bad...)
		for _, f := range list {
			if _, err := os.Stat(strings.TrimSuffix(f.noted, ManifestSuffix) + againSuffix); err == nil && in.Source == Stick {
				if err := a.forgive(f); err != nil {
					return lookEvery, err
				}
			}
			err := Judge(f.Manifest, a.state)
			if err == nil {
				return 0, a.begin(f, in.Source)
			}
			if err := a.refuse(f, in.Source, err); err != nil {
				return lookEvery, err
			}
		}
	}
	slots, err := a.opt.Installer.Slots(ctx)
	if err == nil && (!slices.Equal(slots, a.state.Slots) || a.state.Fault != a.faultOf(slots)) {
		err = a.save(func(s *State) { s.Slots, s.Fault = slots, a.faultOf(slots) })
	}
	return lookEvery, errors.Join(append(errs, err)...)
}

// againSuffix marks an update in the stick's inbox that is to be tried although it failed.
const againSuffix = ".again"

// forgive lets an update be tried again that failed here.
func (a *Agent) forgive(f Found) error {
	err := a.save(func(s *State) {
		s.Bad = slices.DeleteFunc(s.Bad, func(sum string) bool { return sum == f.SHA256 })
	})
	if err != nil {
		return err
	}
	return os.Remove(strings.TrimSuffix(f.noted, ManifestSuffix) + againSuffix)
}

func (a *Agent) begin(f Found, from Source) error {
	a.opt.Log.Info("update", "version", f.Version, "number", f.Number, "source", from)
	err := a.save(func(s *State) {
		s.Phase = Copying
		s.Update = &Pending{Version: f.Version, Number: f.Number, Floor: f.Floor, SHA256: f.SHA256, Size: f.Size, Source: from, Inbox: f.noted,
			Began: a.opt.Now().UTC().Truncate(time.Second), From: a.opt.Running.Number}
	})
	a.opt.Step("begun")
	return err
}

// refuse tells of an update that a rule keeps out. What ended here before keeps its end.
func (a *Agent) refuse(f Found, from Source, why error) error {
	var err error
	if last := a.state.Last; !a.told[f.SHA256] && !errors.Is(why, ErrTried) && (last == nil || last.SHA256 != f.SHA256) {
		a.told[f.SHA256] = true // two that lie side by side would take turns
		a.opt.Log.Warn("update refused", "version", f.Version, "number", f.Number, "source", from, "err", why)
		err = a.save(func(s *State) {
			s.Last = &Result{f.Version, f.Number, f.SHA256, Refused, clip(why.Error()), a.opt.Now().UTC().Truncate(time.Second)}
		})
	}
	return errors.Join(err, a.taken(&Pending{Source: from, Inbox: f.noted}))
}

// fetch copies the bundle into the agent's folder.
func (a *Agent) fetch(ctx context.Context) (time.Duration, error) {
	p := a.state.Update
	f, err := OpenFound(p.Inbox, a.opt.Keys)
	if err == nil && f.SHA256 != p.SHA256 {
		err = fmt.Errorf("%w: another lies in its place", ErrBundle)
	}
	if err == nil {
		if err = a.tidy(p.SHA256); err == nil {
			err = bring(ctx, f.Manifest, f.bundle, a.copied(p.SHA256), a.opt.Reserve, nil)
		}
	}
	switch {
	case err == nil:
		a.opt.Step("copied")
		err = a.save(func(s *State) { s.Phase = Installing })
		a.opt.Step("copied-noted")
		return 0, err
	case errors.Is(err, ErrBundle), errors.Is(err, ErrManifest):
		return 0, a.end(Failed, err.Error())
	case errors.Is(err, fs.ErrNotExist):
		return 0, a.withdraw(ctx, "its file is gone")
	}
	if why := clip(err.Error()); why != p.Why {
		err = errors.Join(err, a.save(func(s *State) { s.Update.Why = why }))
	}
	return lookEvery, err
}

// install has RAUC write the spare slot. An installation that a cut interrupted leaves
// the slot disabled, so it begins again.
func (a *Agent) install(ctx context.Context) (time.Duration, error) {
	p := a.state.Update
	if busy, err := a.opt.Installer.Busy(ctx); err != nil || busy {
		return gateEvery, err // an installation of an agent that was ended
	}
	path := a.copied(p.SHA256)
	compatible, _, err := a.opt.Installer.Info(ctx, path)
	switch {
	case errors.Is(err, fs.ErrNotExist), err != nil && !exists(path):
		return 0, a.save(func(s *State) { s.Phase = Copying })
	case errors.Is(err, ErrBundle):
		return 0, a.giveUp(ctx, Refused, "RAUC does not accept the bundle: "+err.Error())
	case err != nil:
		return lookEvery, err
	case compatible != a.opt.Running.Board:
		return 0, a.giveUp(ctx, Refused, fmt.Sprintf("%v: the bundle is for %.32q", ErrBoard, compatible))
	case p.Installs >= maxInstalls:
		return 0, a.giveUp(ctx, Failed, fmt.Sprintf("it was interrupted in %d installations", maxInstalls))
	}
	slots, err := a.opt.Installer.Slots(ctx)
	if err != nil {
		return lookEvery, err
	}
	spare := spareOf(slots)
	if spare.Name == "" {
		return 0, a.end(Failed, "RAUC knows of no spare slot")
	}
	well := a.wellBefore(ctx)
	// What runs must have its tries before the other slot loses its own.
	if err := a.opt.Installer.Mark(ctx, Booted, MarkGood); err != nil {
		return lookEvery, err
	}
	err = a.save(func(s *State) {
		s.Update.Installs++
		s.Update.Boot, s.Update.Slot, s.Update.Well, s.Update.Verdict, s.Update.Why = a.opt.Boot, spare.Name, well, "", ""
	})
	if err != nil {
		return lookEvery, err
	}
	if err := writeWhole(a.trial(), nil); err != nil {
		return lookEvery, err
	}
	a.opt.Step("install-noted")
	if err := a.opt.Installer.Install(ctx, path, a.percent); err != nil {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		a.opt.Log.Error("update not installed", "version", p.Version, "err", err)
		if a.state.Update.Installs < maxInstalls && !errors.Is(err, ErrBundle) {
			return lookEvery, err
		}
		return 0, a.giveUp(ctx, Failed, err.Error())
	}
	a.opt.Step("installed")
	err = a.save(func(s *State) { s.Phase, s.Update.Percent = Waiting, 0 })
	a.opt.Step("installed-noted")
	return 0, errors.Join(err, a.tidy(""))
}

// trial is a mark for the machine, beside the state: while it is there, a start that no
// agent judges ends in a restart (units/grattoir-trial.service).
func (a *Agent) trial() string { return filepath.Join(a.opt.Dir, "trial") }

func exists(path string) bool { _, err := os.Stat(path); return err == nil }

// percent tells people how far RAUC is, every tenth part.
func (a *Agent) percent(n int) {
	if n/10 != a.state.Update.Percent/10 {
		if err := a.save(func(s *State) { s.Update.Percent = n }); err != nil {
			a.opt.Log.Error("update", "err", err)
		}
	}
}

// ledgerWell names the ledger among what worked before.
const ledgerWell = "ledger"

// wellBefore is what works now and must work after the update, too: what was broken or
// unplugged already is no fault of a new version.
func (a *Agent) wellBefore(ctx context.Context) []string {
	r, err := a.opt.Counter.Ready(ctx)
	if err != nil {
		return []string{ledgerWell} // the daemon is down: the update must bring it up
	}
	well := slices.Clone(r.Devices)
	if r.Ledger == "" {
		well = append(well, ledgerWell)
	}
	return well
}

// restart restarts the machine once the counter is idle.
func (a *Agent) restart(ctx context.Context) (time.Duration, error) {
	granted, why, err := a.opt.Counter.Pause(ctx, pauseFor, false)
	if err != nil {
		granted, why = false, "the daemon does not answer, so whether somebody is being paid is not known"
	}
	if !granted {
		if why = clip(why); why != a.state.Update.Why {
			err = a.save(func(s *State) { s.Update.Why = why })
		} else {
			err = nil
		}
		return askEvery, err
	}
	a.opt.Step("paused")
	if err := a.opt.Restart(ctx); err != nil {
		return askEvery, errors.Join(err, a.opt.Counter.Release(ctx))
	}
	return pauseFor, nil
}

// judge is the health gate of a version that runs for the first time.
func (a *Agent) judge(ctx context.Context) (time.Duration, error) {
	if a.state.Update.Verdict != "" {
		return a.reject(ctx)
	}
	why := a.sick(ctx)
	if why == "" {
		return 0, a.accept(ctx)
	}
	if a.opt.Uptime() < gateLimit {
		return gateEvery, nil
	}
	a.opt.Log.Error("the update is not healthy", "version", a.state.Update.Version, "why", why)
	err := a.save(func(s *State) { s.Update.Verdict = clip(why) })
	a.opt.Step("rejected-noted")
	return 0, err
}

// sick says what the health gate still misses, "" for nothing. It never asks the network.
func (a *Agent) sick(ctx context.Context) string {
	well := a.state.Update.Well
	r, err := a.opt.Counter.Ready(ctx)
	switch {
	case err != nil:
		return "the daemon does not answer: " + err.Error()
	case r.Active < settled:
		return fmt.Sprintf("the daemon has been active for %v only", r.Active.Round(time.Second))
	case slices.Contains(well, ledgerWell) && r.Pending:
		return "the ledger is not verified yet"
	case slices.Contains(well, ledgerWell) && r.Ledger != "":
		return "the ledger: " + r.Ledger
	}
	for _, d := range well {
		if d != ledgerWell && !slices.Contains(r.Devices, d) {
			return "the " + d + " was there before, and is not now"
		}
	}
	return ""
}

// accept makes the version that runs the one that is booted, and raises the floor. The
// other slot is closed before, where it would be below: at no time can one be booted that
// is below the floor, and at every time this one can.
func (a *Agent) accept(ctx context.Context) error {
	p := a.state.Update
	if err := a.opt.Installer.Mark(ctx, Booted, MarkGood); err != nil {
		return err
	}
	a.opt.Step("marked-good")
	floor := max(a.state.Floor, p.Floor)
	if p.From < floor {
		if err := a.opt.Installer.Mark(ctx, Other, MarkBad); err != nil {
			return err
		}
		a.opt.Step("closed-other")
	}
	slots, err := a.opt.Installer.Slots(ctx)
	if err != nil {
		return err
	}
	return a.end(Good, "", func(s *State) {
		s.Best, s.Floor = max(s.Best, p.Number), floor
		s.Slots, s.Fault = slots, a.faultOf(slots)
	})
}

// reject goes back to the version before. Its verdict is durable already: the boot loader
// falls back by itself whatever happens here.
func (a *Agent) reject(ctx context.Context) (time.Duration, error) {
	p := a.state.Update
	slots, err := a.opt.Installer.Slots(ctx)
	if err != nil {
		return gateEvery, err
	}
	if !spareOf(slots).Bootable { // a shop with a sick version is better off than one with none
		if err := a.opt.Installer.Mark(ctx, Booted, MarkGood); err != nil {
			return gateEvery, err
		}
		return 0, a.end(Failed, "it is not healthy, and there is no version to go back to: "+p.Verdict)
	}
	granted, why, err := a.opt.Counter.Pause(ctx, pauseFor, true)
	if err == nil && !granted {
		if why != p.Why {
			return askEvery, a.save(func(s *State) { s.Update.Why = clip(why) })
		}
		return askEvery, nil
	}
	if err != nil {
		if a.silent++; a.silent < silences { // it may be slow, and in the middle of a payment
			return askEvery, nil
		}
	}
	a.silent = 0
	// A daemon that does not answer for so long pays nobody.
	a.opt.Step("paused")
	if err := a.opt.Installer.Mark(ctx, Booted, MarkBad); err != nil {
		return gateEvery, err
	}
	a.opt.Step("marked-bad")
	if err := a.opt.Restart(ctx); err != nil {
		return gateEvery, errors.Join(err, a.opt.Counter.Release(ctx))
	}
	return pauseFor, nil
}

// withdraw gives up an update that has not run yet.
func (a *Agent) withdraw(ctx context.Context, why string) error {
	if busy, err := a.opt.Installer.Busy(ctx); err != nil || busy {
		return err
	}
	return a.giveUp(ctx, Withdrawn, why)
}

// giveUp ends an update that has not run. Where its slot was written it is closed, after
// what runs has got its tries: nothing starts that no gate waits for.
func (a *Agent) giveUp(ctx context.Context, o Outcome, why string) error {
	if a.state.Update.Boot == "" {
		return a.end(o, why)
	}
	if err := a.opt.Installer.Mark(ctx, Booted, MarkGood); err != nil {
		return err
	}
	if err := a.opt.Installer.Mark(ctx, Other, MarkBad); err != nil {
		return err
	}
	a.opt.Step("closed-other")
	return a.end(o, why)
}
