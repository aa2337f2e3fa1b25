package flash

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// Phase is a pass over the card.
type Phase string

// The passes, in their order. A pass that has nothing to do is left out.
const (
	PhaseResume Phase = "checking what was written before"
	PhaseBurn   Phase = "burn-in: filling the card"
	PhaseBurned Phase = "burn-in: reading it back"
	PhaseProbe  Phase = "looking for a fake capacity"
	PhaseWrite  Phase = "writing"
	PhaseVerify Phase = "reading back"
)

// Progress is how far a pass has come.
type Progress struct {
	Phase       Phase
	Done, Total int64         // bytes of this pass
	Speed       float64       // bytes a second, over the last ranges; 0 while unknown
	Left        time.Duration // of this pass, at that speed
	Silent      time.Duration // more than 0: the drive has not answered for so long
}

// How long a drive may be silent. Cards pause for seconds to tidy up; the kernel gives up
// on one after half a minute and several tries.
const (
	silentAfter = 10 * time.Second
	silentMost  = 3 * time.Minute
)

// window is how many ranges a speed is taken over.
const window = 16

// track measures a pass, tells of it, and watches over every call to the medium.
type track struct {
	ctx    context.Context
	medium Medium
	tell   func(Progress)
	now    Progress
	marks  []mark    // the last ranges
	speeds []float64 // of all calls of this pass that moved at least a unit, bytes a second
}

type mark struct {
	at   time.Time
	done int64
}

func (t *track) begin(p Phase, total int64) {
	t.now = Progress{Phase: p, Total: total}
	t.marks, t.speeds = []mark{{at: time.Now()}}, nil
	t.tell(t.now)
}

// add counts bytes that are done.
func (t *track) add(n int64) {
	t.now.Done += n
	t.marks = append(t.marks, mark{time.Now(), t.now.Done})
	if len(t.marks) > window {
		t.marks = t.marks[1:]
	}
	first, last := t.marks[0], t.marks[len(t.marks)-1]
	if took := last.at.Sub(first.at).Seconds(); took > 0 {
		t.now.Speed = float64(last.done-first.done) / took
		t.now.Left = time.Duration(float64(t.now.Total-t.now.Done) / t.now.Speed * float64(time.Second))
	}
	t.tell(t.now)
}

// call runs one call to the medium. A drive that does not answer is named while it is
// silent and given up at last; the call itself cannot be taken back, so its buffer is
// never used again. The errors are Faults, or the context's.
func (t *track) call(n int64, op func() error) error {
	if err := t.ctx.Err(); err != nil {
		return err
	}
	began, answer := time.Now(), make(chan error, 1)
	go func() { answer <- op() }()
	wait := time.NewTimer(silentAfter)
	defer wait.Stop()
	stopped := t.ctx.Done()
	for {
		select {
		case err := <-answer:
			if took := time.Since(began).Seconds(); n >= unit && took > 0 {
				t.speeds = append(t.speeds, float64(n)/took)
			}
			if err != nil {
				err = classify(err, t.medium.Name(), t.medium.Present())
			}
			return err
		case <-stopped: // the call in flight is left some time to end
			stopped = nil
			wait.Reset(silentAfter)
		case <-wait.C:
			silent := time.Since(began)
			if t.ctx.Err() != nil {
				return t.ctx.Err()
			}
			if silent >= silentMost {
				return fault(codeStalled, t.medium.Name(), "no answer for %v while %s, after %d of %d bytes", silent.Round(time.Second), t.now.Phase, t.now.Done, t.now.Total)
			}
			told := t.now
			told.Silent = silent
			t.tell(told)
			wait.Reset(silentAfter)
		}
	}
}

func (t *track) write(b []byte, off int64) error {
	return t.call(int64(len(b)), func() error {
		n, err := t.medium.WriteAt(b, off)
		if err == nil && n < len(b) {
			err = io.ErrShortWrite
		}
		if err != nil {
			return errAt("writing", off, n, err)
		}
		return nil
	})
}

func (t *track) read(b []byte, off int64) error {
	return t.call(int64(len(b)), func() error {
		n, err := t.medium.ReadAt(b, off)
		if n == len(b) {
			return nil // io.ReaderAt may add io.EOF at the end
		}
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return errAt("reading", off, n, err)
	})
}

func (t *track) sync() error { return t.call(0, t.medium.Sync) }

// discard tells the drive that a range does not matter any more. Many cannot be told, and
// what they answer is no error while they are there.
func (t *track) discard(off, n int64) error {
	return t.call(0, func() error {
		if err := t.medium.Discard(off, n); err != nil && !t.medium.Present() {
			return err
		}
		return nil
	})
}

// pace is the median and the slowest speed of the pass, in bytes a second; 0 where nothing was measured. The
// slowest is that of a run of calls, since one pause is no fault.
func (t *track) pace() (median, slowest float64) {
	if len(t.speeds) == 0 {
		return 0, 0
	}
	sorted := slices.Sorted(slices.Values(t.speeds))
	median, slowest = sorted[len(sorted)/2], sorted[len(sorted)-1]
	for run := range slices.Chunk(t.speeds, window) {
		var seconds float64
		for _, s := range run {
			seconds += 1 / s
		}
		slowest = min(slowest, float64(len(run))/seconds)
	}
	return median, slowest
}

func errAt(doing string, off int64, n int, err error) error {
	return fmt.Errorf("%s at %d (%d bytes done): %w", doing, off, n, err)
}
