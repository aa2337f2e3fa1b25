package people

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"grattoir/sync/ledger/powercut"
)

// The power is cut under the operators' file and the register, at every step of everything
// they do to their disk, as it is under the ledger. Each act is one line of the audit or
// more, in the transaction of the act itself, so the audit tells which acts are there: all
// that had returned, and the tables are as they were after that many lines.

// cutDisk are two disks: one that a life is lived on, one to look at what a cut leaves.
type cutDisk struct {
	life, look   string
	logs, lookAt *powercut.Disk
	path         string
	rng          *rand.Rand
}

func newCutDisk(t *testing.T, name, file string) *cutDisk {
	t.Helper()
	c := &cutDisk{life: name + "-life", look: name + "-look", path: filepath.Join(t.TempDir(), file), rng: rand.New(rand.NewPCG(4, 2))}
	var err1, err2 error
	c.logs, err1 = powercut.New(c.life)
	c.lookAt, err2 = powercut.New(c.look)
	must(t, errors.Join(err1, err2))
	t.Cleanup(func() { must(t, errors.Join(c.logs.Close(), c.lookAt.Close())) })
	return c
}

// noted is the state after an act: the audit then, and what the tables show.
type noted struct {
	act   string
	end   int // steps of the disk that were done
	lines []string
	view  string
	gone  []byte // bytes that must be in no file any more from here on
}

// lived is a run of acts.
type lived struct {
	acts  []noted
	views map[int]string // by the number of the audit's lines
}

func (l *lived) add(c *cutDisk, act string, lines []string, view string, gone []byte) {
	l.acts = append(l.acts, noted{act, c.logs.Len(), lines, view, gone})
	l.views[len(lines)] = view
}

// open is what a test opens on a disk: its audit's lines, what its tables show, and its end.
type open func(t *testing.T, vfs string) (lines []string, view string, end func())

// cutEverywhere cuts a life at every step and looks at what is left. It gives how many
// cuts there were, and what was wrong.
func (c *cutDisk) cutEverywhere(t *testing.T, l *lived, look open) (cuts int, wrong []string) {
	t.Helper()
	p := c.logs.Platter()
	for more := true; more; more = p.Next() {
		times := 1
		if p.Unsynced() > 0 {
			times = 3
		}
		if raceEnabled && c.rng.IntN(4) > 0 {
			continue // the detector is slow
		}
		done := -1 // the last act that had returned
		for done+1 < len(l.acts) && l.acts[done+1].end <= p.At() {
			done++
		}
		if done < 0 {
			continue // the file is being made
		}
		for range times {
			cuts++
			image := p.Image(c.rng, powercut.Hardware{})
			must(t, c.lookAt.Load(image))
			if bad := c.left(t, l, done, look); bad != "" {
				wrong = append(wrong, fmt.Sprintf("after step %d, %s: %s", p.At(), l.acts[done].act, bad))
			}
		}
	}
	return cuts, wrong
}

func (c *cutDisk) left(t *testing.T, l *lived, done int, look open) (bad string) {
	t.Helper()
	lines, view, end := look(t, c.look)
	if end == nil {
		return view
	}
	defer end()
	acked := l.acts[done]
	full := l.acts[len(l.acts)-1].lines
	switch want, known := l.views[len(lines)]; {
	case len(lines) < len(acked.lines):
		return fmt.Sprintf("%d lines of the audit, %d were acknowledged", len(lines), len(acked.lines))
	case len(lines) > len(full) || !slices.Equal(lines, full[:len(lines)]):
		return "the audit is another one"
	case known && view != want:
		return fmt.Sprintf("with %d lines the tables show %s, want %s", len(lines), view, want)
	}
	for _, a := range l.acts[:done+1] {
		if a.gone != nil && c.holds(t, a.gone) {
			return "bytes that were erased before are there"
		}
	}
	return ""
}

// holds looks for bytes in the files of the disk that is looked at, as they are now.
func (c *cutDisk) holds(t *testing.T, needle []byte) bool {
	t.Helper()
	p := c.lookAt.Platter()
	for p.Next() {
	}
	image := p.Image(c.rng, powercut.Hardware{})
	name := filepath.Base(c.path)
	return bytes.Contains(image.Bytes(name), needle) || bytes.Contains(image.Bytes(name+"-wal"), needle)
}

// remember lays the lock file as a terminal has it that had such a file before.
func (c *cutDisk) remember(t *testing.T) {
	t.Helper()
	must(t, os.WriteFile(c.path+".lock", []byte("exists\n"), 0o600))
}

func (c *cutDisk) staff(t *testing.T, w *world, on disk) *Staff {
	t.Helper()
	opt := staffOptions(filepath.Dir(c.path), w)
	opt.Path, opt.disk = c.path, on
	s, err := Open(context.Background(), opt)
	must(t, err)
	return s
}

// people shows the operators, but for wrong PINs, and the session.
func peopleView(s *Staff) string {
	list, err := s.Operators(context.Background())
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, o := range list {
		_, pin, err := operator(context.Background(), s.file.DB, o.ID)
		fmt.Fprintf(&b, "%s %s %v %s %v; ", o.ID, o.Role, o.Suspended, pin, err)
	}
	x, _ := s.Session()
	if x != nil {
		fmt.Fprintf(&b, "session %d of %s", x.Number, x.Operator)
	}
	return b.String()
}

// staffLife lives the life of a shop's operators.
func (c *cutDisk) staffLife(t *testing.T, w *world, on disk) *lived {
	t.Helper()
	ctx := context.Background()
	l := &lived{views: map[int]string{}}
	s := c.staff(t, w, on)
	do := func(act string, f func() error) {
		t.Helper()
		if err := f(); err != nil && !errors.Is(err, ErrWrong) {
			t.Fatalf("%s: %v", act, err)
		}
		l.add(c, act, audit(t, s.Audit), peopleView(s), nil)
	}
	do("open", func() error { return nil })
	do("add anne", func() error {
		return s.Add(ctx, Owner(), Operator{ID: "anne", Name: "Anne", Role: Manager}, pin(t, managerPIN))
	})
	anne := as(t, "anne", managerPIN)
	do("add marie", func() error {
		return s.Add(ctx, anne, Operator{ID: "marie", Name: "Marie", Role: Clerk}, pin(t, clerkPIN))
	})
	do("a wrong PIN", func() error { _, err := s.SignOn(ctx, as(t, "marie", wrongPIN), 0, "EUR"); return err })
	w.pass(5 * time.Minute)
	do("sign on", func() error { _, err := s.SignOn(ctx, as(t, "marie", clerkPIN), 15000, "EUR"); return err })
	do("approve", func() error { _, err := s.Approve(ctx, ActReversal, "claim 1", anne); return err })
	do("suspend", func() error { return s.Suspend(ctx, anne, "marie") })
	do("resume", func() error { return s.Resume(ctx, anne, "marie") })
	_, hash, err := operator(ctx, s.file.DB, "marie")
	must(t, err)
	do("another PIN", func() error { return s.SetPIN(ctx, anne, "marie", pin(t, clerkTwoPIN)) })
	l.acts[len(l.acts)-1].gone = []byte(hash)
	do("end the session", func() error { _, err := s.EndSession(ctx, anne); return err })
	must(t, s.Close())
	l.add(c, "close", l.acts[len(l.acts)-1].lines, l.acts[len(l.acts)-1].view, nil)
	return l
}

func (c *cutDisk) lookAtStaff(w *world) open {
	return func(t *testing.T, vfs string) ([]string, string, func()) {
		t.Helper()
		opt := staffOptions(filepath.Dir(c.path), w)
		opt.Path, opt.disk = c.path, disk{vfs: vfs}
		s, err := Open(context.Background(), opt)
		if err != nil {
			return nil, err.Error(), nil
		}
		if err := s.Verify(context.Background()); err != nil {
			return nil, errors.Join(err, s.Close()).Error(), nil
		}
		return audit(t, s.Audit), peopleView(s), func() { must(t, s.Close()) }
	}
}

// TestOperatorsSurvivePowerCuts: no acknowledged act is lost, no other is half there, and
// the hash of a PIN that was changed is in no file.
func TestOperatorsSurvivePowerCuts(t *testing.T) {
	w := newWorld()
	c := newCutDisk(t, "people", "people.db")
	l := c.staffLife(t, w, disk{vfs: c.life})
	c.remember(t)
	cuts, wrong := c.cutEverywhere(t, l, c.lookAtStaff(w))
	t.Logf("%d cuts", cuts)
	if len(wrong) > 0 || cuts < 40 {
		t.Errorf("%d of %d cuts left something wrong; the first: %v", len(wrong), cuts, wrong[:min(1, len(wrong))])
	}
}

// TestWrongPINIsNotGivenBackByAPowerCut: what was counted before the answer stays counted.
func TestWrongPINIsNotGivenBackByAPowerCut(t *testing.T) {
	ctx := context.Background()
	w := newWorld()
	c := newCutDisk(t, "tries", "people.db")
	s := c.staff(t, w, disk{vfs: c.life})
	must(t, s.Add(ctx, Owner(), Operator{ID: "anne", Name: "Anne", Role: Manager}, pin(t, managerPIN)))
	begun := c.logs.Len()
	var ends []int
	for range 3 {
		_, err := s.SignOn(ctx, as(t, "anne", wrongPIN), 0, "EUR")
		want(t, err, ErrWrong)
		ends = append(ends, c.logs.Len())
		w.pass(20 * time.Minute)
	}
	must(t, s.Close())
	c.remember(t)
	p := c.logs.Platter()
	for more := true; more; more = p.Next() {
		if p.At() < begun || raceEnabled && c.rng.IntN(4) > 0 {
			continue
		}
		counted := 0
		for counted < len(ends) && ends[counted] <= p.At() {
			counted++
		}
		for range 3 {
			must(t, c.lookAt.Load(p.Image(c.rng, powercut.Hardware{})))
			again := c.staff(t, w, disk{vfs: c.look})
			if got := failed(t, again, "anne"); got < counted || got > counted+1 {
				t.Errorf("after step %d %d wrong PINs are known, %d were answered", p.At(), got, counted)
			}
			must(t, again.Close())
		}
	}
}

// registerView shows the records.
func registerView(r *Register) string {
	var b strings.Builder
	rows, err := r.file.DB.Query("SELECT hex(id), acknowledged, length(sealed), (SELECT group_concat(claim) FROM payments WHERE record = number) FROM records ORDER BY number")
	if err != nil {
		return err.Error()
	}
	defer rows.Close()
	for rows.Next() {
		var id, claims string
		var acknowledged, size int
		if err := rows.Scan(&id, &acknowledged, &size, &claims); err != nil {
			return err.Error()
		}
		fmt.Fprintf(&b, "%s %d %d %s; ", id, acknowledged, size, claims)
	}
	return b.String()
}

// registerLife records, sends and erases.
func (c *cutDisk) registerLife(t *testing.T, w *world, opt RegisterOptions) *lived {
	t.Helper()
	ctx := context.Background()
	l := &lived{views: map[int]string{}}
	opt.disk.vfs = c.life
	r := openRegister(t, opt)
	do := func(act string, gone []byte, f func() error) {
		t.Helper()
		if err := f(); err != nil {
			t.Fatalf("%s: %v", act, err)
		}
		l.add(c, act, audit(t, r.Audit), registerView(r), gone)
	}
	var ids []RecordID
	var sealed []byte
	do("open", nil, func() error { return nil })
	for n := range 3 {
		do("record", nil, func() error {
			id, err := r.Record(ctx, "marie", identity(), payment(n, 2000_00))
			ids = append(ids, id)
			return err
		})
	}
	do("send", nil, func() error {
		list, err := r.Pending(ctx, 10)
		sealed = list[0].Bytes[100:200]
		return err
	})
	do("acknowledged", nil, func() error { return r.Acknowledge(ctx, ids[:1]) })
	w.pass(span + 1)
	do("erase", sealed, func() error { _, err := r.Erase(ctx, Keep{Span: span, Term: term}); return err })
	do("record again", nil, func() error { _, err := r.Record(ctx, "marie", identity(), payment(9, 2000_00)); return err })
	must(t, r.Close())
	l.add(c, "close", l.acts[len(l.acts)-1].lines, l.acts[len(l.acts)-1].view, nil)
	return l
}

// TestRegisterSurvivesPowerCuts: no acknowledged record is lost, none is half there, and
// what was erased is in no file.
func TestRegisterSurvivesPowerCuts(t *testing.T) {
	w := newWorld()
	c := newCutDisk(t, "register", "register.db")
	opt, _ := registerOptions(t, filepath.Dir(c.path), w)
	opt.Path = c.path
	l := c.registerLife(t, w, opt)
	c.remember(t)
	look := func(t *testing.T, vfs string) ([]string, string, func()) {
		t.Helper()
		opt.disk = disk{vfs: vfs}
		r, err := OpenRegister(context.Background(), opt)
		if err != nil {
			return nil, err.Error(), nil
		}
		if err := r.Verify(context.Background()); err != nil {
			return nil, errors.Join(err, r.Close()).Error(), nil
		}
		return audit(t, r.Audit), registerView(r), func() { must(t, r.Close()) }
	}
	cuts, wrong := c.cutEverywhere(t, l, look)
	t.Logf("%d cuts", cuts)
	if len(wrong) > 0 || cuts < 40 {
		t.Errorf("%d of %d cuts left something wrong; the first: %v", len(wrong), cuts, wrong[:min(1, len(wrong))])
	}
}

// TestPowerCutsFindAFileThatSyncsTooLittle shows that the tests above can fail.
func TestPowerCutsFindAFileThatSyncsTooLittle(t *testing.T) {
	w := newWorld()
	c := newCutDisk(t, "weak", "people.db")
	l := c.staffLife(t, w, disk{vfs: c.life, synchronous: "NORMAL"})
	c.remember(t)
	if cuts, wrong := c.cutEverywhere(t, l, c.lookAtStaff(w)); len(wrong) == 0 {
		t.Errorf("%d cuts into a file that syncs too little have lost nothing", cuts)
	}
}
