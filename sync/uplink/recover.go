package uplink

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"grattoir/sync/ledger"
	"grattoir/sync/wire"
)

// A terminal whose ledger was put back to an earlier state, or whose card was copied,
// stops by itself, whatever central does, and says why. Central's word that a person has
// agreed comes with a hello. Then the terminal reads its own journal again into a file,
// all of it before any of it counts, and the ledger takes it in one transaction.

var (
	// ErrHeadBehind means that central holds more of the journal than the ledger has.
	ErrHeadBehind = fmt.Errorf("%w: the ledger was put back to an earlier state", ErrStopped)
	// ErrTwoHeads means that another device lives under this terminal's name.
	ErrTwoHeads = fmt.Errorf("%w: another device has this terminal's name and key", ErrStopped)
)

// stops are the codes that end when a person at central has agreed, and what central is
// told of them.
func stops(code string) (wire.Stop, bool) {
	switch code {
	case CodeStopped:
		return wire.StopFork, true
	case CodeBehind:
		return wire.StopHeadBehind, true
	case CodeTwoHeads:
		return wire.StopTwoHeads, true
	}
	return "", false
}

// stopCode is the code of a stop that central is to hear of.
func stopCode(stop wire.Stop) string {
	switch stop {
	case wire.StopHeadBehind:
		return CodeBehind
	case wire.StopTwoHeads:
		return CodeTwoHeads
	}
	return CodeStopped
}

// refuse stops this terminal at once and durably, unless something has stopped it already.
func (u *Uplink) refuse(code string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.refuseLocked(code)
}

func (u *Uplink) refuseLocked(code string) {
	_, stop := stops(code)
	_, stopped := stops(u.refused)
	if u.refused != code && !stopped && (stop || code == CodeForbidden) {
		u.setRefused(code)
	}
}

// agree notes the epoch that a person has agreed to, and wakes the journal's lane.
func (u *Uplink) agree(epoch int64) {
	u.mu.Lock()
	_, stopped := stops(u.refused)
	if stopped {
		u.agreed = epoch
	}
	u.mu.Unlock()
	if stopped {
		signal(u.nudge)
	}
}

// stopped gives what stops this terminal, and the epoch that was agreed to, 0 for none.
func (u *Uplink) stopped() (code string, agreed int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, stop := stops(u.refused); !stop {
		return "", 0
	}
	return u.refused, u.agreed
}

// ownFile is the journal as it comes from central, a line each, in the folder of blocks. It
// has not the name of a part of a block: those are the files' lane's, which removes them.
const ownFile = "journal.lines"

// comeBack does what a stop asks for: nothing but waiting before a person has agreed, and
// then the way back.
func (j *journal) comeBack(ctx context.Context) error {
	code, epoch := j.stopped()
	switch {
	case code == "":
		return nil
	case epoch > 0:
		return j.restore(ctx, epoch)
	case code == CodeBehind:
		return ErrHeadBehind
	case code == CodeTwoHeads:
		return ErrTwoHeads
	}
	return ErrStopped
}

// restore reads this terminal's journal from central and brings the ledger back to it. A
// ledger that is there already, because something broke after it was, only goes on.
func (j *journal) restore(ctx context.Context, epoch int64) error {
	head, err := j.opt.Ledger.HeadPosition(ctx)
	if err != nil {
		return err
	}
	if head.Epoch < epoch {
		if err := j.readAgain(ctx, epoch); err != nil {
			return err
		}
	}
	j.at = -1
	j.mu.Lock()
	j.refused, j.agreed, j.moved = "", 0, nil
	j.mu.Unlock()
	return nil
}

func (j *journal) readAgain(ctx context.Context, epoch int64) error {
	acked, err := j.opt.Ledger.Acked(ctx)
	if err != nil {
		return err
	}
	path := filepath.Join(j.opt.Blocks.Dir, ownFile)
	ack, err := j.readOwn(ctx, path, acked)
	if err != nil {
		return err
	}
	done, err := j.opt.Ledger.Restore(ctx, ledger.Restoring{Acked: ack, Epoch: epoch, Lines: func(use func([]byte) error) error { return eachLine(path, use) }})
	if left := os.Remove(path); left != nil { // what counts is in the ledger; the next reading begins the file anew
		j.opt.Log.Warn("the journal that was read again is not removed", "file", path, "err", left)
	}
	if errors.Is(err, ledger.ErrRestore) {
		return fmt.Errorf("%w: %w", ErrAnswer, err)
	} else if err != nil {
		return fmt.Errorf("%w: %w", ErrStore, err)
	}
	j.opt.Log.Warn("the journal was read again from central, and goes on in a new epoch", "epoch", epoch, "taken", done.Taken, "carried", done.Carried, "claims", done.Claims)
	return nil
}

// readOwn writes what central holds of this journal, behind a place, to a file, and gives
// the countersigned end of it.
func (j *journal) readOwn(ctx context.Context, path string, after wire.Position) (ack wire.Ack, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return ack, fmt.Errorf("%w: %w", ErrStore, err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return ack, fmt.Errorf("%w: %w", ErrStore, err)
	}
	defer func() {
		if closing := f.Close(); err == nil && closing != nil {
			err = fmt.Errorf("%w: %w", ErrStore, closing)
		}
	}()
	for {
		var run wire.JournalRun
		if err := j.client().get(ctx, requestTimeout, fmt.Sprintf("%s?epoch=%d&after=%d", wire.PathJournal, after.Epoch, after.Seq), &run); err != nil {
			return ack, err
		}
		if len(run.Lines) == 0 {
			return j.openAck(run.Acked)
		}
		if len(run.Lines) > wire.MaxEntries || run.Epoch < after.Epoch || run.Epoch == after.Epoch && after.Seq > 1<<53 {
			return ack, fmt.Errorf("%w: %d lines of epoch %d after entry %d-%d", ErrAnswer, len(run.Lines), run.Epoch, after.Epoch, after.Seq)
		}
		if run.Epoch > after.Epoch {
			after = wire.Position{Epoch: run.Epoch}
		}
		for _, line := range run.Lines {
			if len(line) > wire.MaxLine || bytes.ContainsAny([]byte(line), "\n\r") {
				return ack, fmt.Errorf("%w: a line of %d bytes after entry %d-%d", ErrAnswer, len(line), after.Epoch, after.Seq)
			}
			if _, err := f.WriteString(line + "\n"); err != nil {
				return ack, fmt.Errorf("%w: %w", ErrStore, err)
			}
			after.Seq++
		}
		j.heard()
	}
}

// eachLine reads the file back. It was written by this process and needs no sync: the
// ledger holds it against central's signature.
func eachLine(path string, use func([]byte) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Buffer(nil, wire.MaxLine+1)
	for s.Scan() {
		if err := use(bytes.Clone(s.Bytes())); err != nil {
			return err
		}
	}
	return s.Err()
}
