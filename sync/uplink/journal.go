package uplink

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"

	"grattoir/sync/ledger"
	"grattoir/sync/wire"
)

// firstRun is how many entries the first upload has: a slow line gets something through.
const firstRun = 50

// journal is the lane that sends entries. Its state is only a hint of where to go on:
// what is acknowledged is in the ledger.
type journal struct {
	*Uplink
	at  int64 // what central holds as far as we know, -1 for what the ledger says
	max int   // entries of the next upload
}

// step uploads the next run, or waits for an entry when there is none.
func (j *journal) step(ctx context.Context) (rest, error) {
	idle := rest{wake: [2]<-chan struct{}{j.opt.Ledger.Changed(), j.nudge}} // before reading, so that no entry is missed
	if err := j.comeBack(ctx); err != nil {
		return rest{}, err
	}
	if err := j.heed(ctx); err != nil {
		return rest{}, err
	}
	if j.at < 0 {
		acked, err := j.opt.Ledger.Acked(ctx)
		if err != nil {
			return rest{}, err
		}
		j.at = acked.Seq
	}
	from, lines, to, err := j.opt.Ledger.Since(ctx, j.at, j.max)
	if err != nil || len(lines) == 0 {
		return idle, err
	}
	if err := j.upload(ctx, from, lines, to); err != nil {
		// Central could not countersign, so that the device's own signature is all that
		// tells later whether these entries were changed.
		if err := j.opt.Ledger.SignHead(ctx, ledger.HeadUpload); err != nil {
			j.opt.Log.Error("the journal's head is not signed", "err", err)
		}
		return rest{}, j.handle(ctx, err)
	}
	j.max = min(2*j.max, wire.MaxEntries)
	return rest{now: true}, nil
}

// upload sends one run and stores central's acknowledgement of it.
func (j *journal) upload(ctx context.Context, from int64, lines []string, to wire.Position) error {
	signature, err := j.me().Sign([]byte(wire.HeadText(j.me().Terminal, to)))
	if err != nil {
		return err
	}
	message := wire.Upload{Protocol: wire.Protocol, Epoch: to.Epoch, From: from, Lines: lines, To: to, Signature: base64.StdEncoding.EncodeToString(signature)}
	var a wire.UploadAnswer
	if err := j.client().post(ctx, wire.PathJournal, message, &a); err != nil {
		return err
	}
	ack, err := j.openAck(a.Acked)
	if err != nil {
		return err
	}
	// Central may hold more by now, from an upload whose answer was lost; Ack holds what
	// it names against our own entries.
	if err := j.storeAck(ctx, ack); err != nil {
		return err
	}
	if ack.Position.Seq < from {
		return fmt.Errorf("%w: it acknowledges entry %d after an upload of %d to %d", ErrAnswer, ack.Position.Seq, from, to.Seq)
	}
	j.heard()
	j.meet()
	j.at = ack.Position.Seq
	j.report(a.Exceptions)
	return nil
}

// report tells the log what central did not credit. Central keeps it and its operators
// see to it; the terminal has paid and changes nothing.
func (j *journal) report(list []wire.Exception) {
	for _, x := range list {
		j.opt.Log.Warn("central did not credit an entry", "seq", x.Seq, "kind", clip(string(x.Kind), 40), "text", clip(x.Text, 200))
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.exceptions += int64(len(list))
}

// handle turns what central refuses into the next step.
func (j *journal) handle(ctx context.Context, err error) error {
	var e *wire.Error
	if !errors.As(err, &e) {
		if errors.Is(err, context.DeadlineExceeded) {
			j.max = max(1, j.max/2) // a line too slow for so much
		}
		return err
	}
	switch e.Kind {
	case wire.KindTooLarge:
		j.max = max(1, j.max/2)
	case wire.KindFork:
		return fmt.Errorf("%w: %w", ErrStopped, err)
	case wire.KindBehind:
		if e.Acked == nil {
			return fmt.Errorf("%w: it is behind and does not say where: %w", ErrAnswer, err)
		}
		if stop := j.goTo(ctx, *e.Acked); stop != nil {
			return stop
		}
	}
	return err
}

// heed looks whether the hello lane heard that central holds something else.
func (j *journal) heed(ctx context.Context) error {
	j.mu.Lock()
	p := j.moved
	j.moved = nil
	j.mu.Unlock()
	if p == nil {
		return nil
	}
	return j.goTo(ctx, *p)
}

// goTo continues after the position that central holds, when the ledger has the very
// same entry there.
func (j *journal) goTo(ctx context.Context, p wire.Position) error {
	head, err := j.opt.Ledger.HeadPosition(ctx)
	if err != nil {
		return err
	}
	if p.Epoch > head.Epoch || p.Epoch == head.Epoch && p.Seq > head.Seq {
		return fmt.Errorf("%w: central holds entry %d-%d, the ledger ends at %d-%d", ErrHeadBehind, p.Epoch, p.Seq, head.Epoch, head.Seq)
	}
	if p.Epoch < head.Epoch || p.Seq <= 0 { // nothing of this journal epoch
		j.at = 0
		return nil
	}
	own, err := j.opt.Ledger.PositionAt(ctx, p.Seq)
	if err != nil {
		return err
	}
	if own != p {
		return fmt.Errorf("%w: entry %d has hash %s here, %.64s there", ErrStopped, p.Seq, own.Hash, p.Hash)
	}
	acked, err := j.opt.Ledger.Acked(ctx)
	if err != nil {
		return err
	}
	// Central may be ahead of our mark when its answer was lost. Its word without a
	// signature moves no mark, so the entries above the mark are sent again and signed for.
	j.at = min(p.Seq, acked.Seq)
	return nil
}
