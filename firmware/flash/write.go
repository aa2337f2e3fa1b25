package flash

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"time"
)

// Job is one card to write or to verify.
type Job struct {
	Image    *Image
	Medium   Medium
	Card     Card
	Journals string         // folder of the journals by which an interrupted card goes on; "" for none
	BurnIn   bool           // fill the whole card and read it back before the image is written
	Tell     func(Progress) // called from one goroutine at a time, often; nil for silence

	every int64 // bytes between two checkpoints; 0 for checkpoint
}

// Result is what came of a job, as far as it came.
type Result struct {
	Resumed  int64         // bytes that an earlier try had written, found good
	Written  int64         // bytes of the image written now
	Verified int64         // bytes read back from the medium and found equal, holes with them
	Zeroed   int64         // bytes of old content in the image's holes that were written over
	Took     time.Duration // in all
	Speed    float64       // median of writing, or of reading where nothing was written, bytes a second
	Slowest  float64       // of a run of calls
	Slow     bool          // the burn-in found the card slow: fault F19, which is no failure
}

// checkpoint is usually how much is written between two syncs: what is lost by pulling the card.
const checkpoint = 16 << 20

// Write writes an image to a medium, all old content of which is given up, and reads every
// byte of it back. The first MiB, without which nothing boots, is blank from the first
// moment and written last, after all else was read back. After an error the same job goes
// on where it was. The errors are Faults, or the context's.
func Write(ctx context.Context, job Job) (Result, error) {
	w, err := begin(ctx, job)
	if err != nil {
		return Result{}, err
	}
	err = w.run()
	w.result.Took = time.Since(w.began)
	return w.result, err
}

// writer is a job under way.
type writer struct {
	*track
	image   *Image
	job     Job
	journal *journal
	began   time.Time
	result  Result
}

func begin(ctx context.Context, job Job) (*writer, error) {
	if job.Tell == nil {
		job.Tell = func(Progress) {}
	}
	if job.every == 0 {
		job.every = checkpoint
	}
	if job.Medium.Size() < job.Image.Size {
		return nil, fault(codeSmall, job.Medium.Name(), "it has %d bytes, the image needs %d", job.Medium.Size(), job.Image.Size)
	}
	return &writer{track: &track{ctx: ctx, medium: job.Medium, tell: job.Tell}, image: job.Image, job: job, began: time.Now()}, nil
}

// run is the job. A card that does not keep what is written must be begun anew, and may
// hold anything at its start: addresses that wrap lead there.
func (w *writer) run() error {
	err := w.steps()
	var f *Fault
	if errors.As(err, &f) && slices.Contains([]string{codeDiffers, codeFake, codeWorn}, f.Code) {
		return errors.Join(err, w.journal.forget(), w.blank())
	}
	return err
}

func (w *writer) steps() (err error) {
	if w.journal, err = openJournal(w.job.Journals, w.image.ID(), w.job.Card); err != nil {
		return err
	}
	resumed, err := w.resumes()
	if err != nil {
		return err
	}
	if !resumed {
		if err := w.prepare(); err != nil {
			return err
		}
	}
	if err := w.fill(); err != nil {
		return err
	}
	first, rest := w.image.blocks.Ranges[0], w.image.blocks.Ranges[1:]
	if err := w.readBack(rest, w.image.Size-unit); err != nil {
		return err
	}
	raw, err := w.image.load(first, make([]byte, maxPacked), aligned(maxRange))
	if err != nil {
		return err
	}
	if err := w.store(raw, 0); err != nil {
		return err
	}
	w.result.Written += first.Len
	if _, err := w.check(first, aligned(maxRange), nil); err != nil {
		return err
	}
	return w.journal.forget()
}

// resumes tells whether the card is the one of the journal, unfinished.
func (w *writer) resumes() (bool, error) {
	if w.journal.done == 0 {
		return false, nil
	}
	mark := w.journal.mark()
	found := aligned(sector)
	if err := w.read(found, markAt); err != nil {
		return false, err
	}
	if !bytes.Equal(found, mark) { // another card in the same reader, or one that was used meanwhile
		w.journal.done, w.journal.head.Stamp = 0, newStamp()
		return false, nil
	}
	return true, nil
}

// prepare makes a card that holds anything into one that holds nothing: the start is blank
// before anything else is written, and carries the mark of an unfinished card.
func (w *writer) prepare() error {
	if err := w.blank(); err != nil {
		return err
	}
	mark, found := w.journal.mark(), aligned(sector)
	if err := w.store(mark, markAt); err != nil {
		return err
	}
	if err := w.read(found, markAt); err != nil {
		return err
	}
	if !bytes.Equal(found, mark) {
		return fault(codeDiffers, w.medium.Name(), "at %d lies something else than was written: a card that locked itself does that", markAt)
	}
	if w.job.BurnIn {
		if err := w.burnIn(); err != nil {
			return err
		}
	}
	if err := w.probe(); err != nil {
		return err
	}
	if err := w.discardAll(); err != nil {
		return err
	}
	w.journal.done = unit
	return w.journal.start()
}

// blank takes the partition table away.
func (w *writer) blank() error { return w.store(aligned(unit), 0) }

// store writes and syncs.
func (w *writer) store(b []byte, off int64) error {
	if err := w.write(b, off); err != nil {
		return err
	}
	return w.sync()
}

// discardAll tells the card that nothing on it matters, which makes it faster and old
// content hard to read. It is told in steps, since each may take long.
func (w *writer) discardAll() error {
	const step = 1 << 30
	end := w.medium.Size() / sector * sector
	for off := int64(unit); off < end; off += step {
		if err := w.discard(off, min(step, end-off)); err != nil {
			return err
		}
	}
	return nil
}

// fill writes all ranges but the first, and sees to it that holes are zero.
func (w *writer) fill() error {
	ranges, err := w.keep()
	if err != nil {
		return err
	}
	var total int64
	for _, r := range ranges {
		total += r.Len
	}
	w.begin(PhaseWrite, total)
	ctx, stop := context.WithCancel(w.ctx)
	loads, scratch := w.prefetch(ctx, ranges), aligned(maxRange)
	defer func() {
		stop()
		for range loads.ready { // the image may be closed only when nothing reads it
		}
	}()
	synced := w.journal.done
	for l := range loads.ready {
		if l.err != nil {
			return l.err
		}
		if err := w.put(l, scratch); err != nil {
			return err
		}
		if loads.free <- l.buffer; l.Off+l.Len-synced >= w.job.every {
			if err := w.checkpoint(l.Off + l.Len); err != nil {
				return err
			}
			synced = l.Off + l.Len
		}
	}
	if err := w.ctx.Err(); err != nil {
		return err
	}
	w.result.Speed, w.result.Slowest = w.pace()
	return w.checkpoint(w.image.Size)
}

// checkpoint makes everything before an offset durable, then notes it.
func (w *writer) checkpoint(done int64) error {
	if err := w.sync(); err != nil {
		return err
	}
	return w.journal.note(max(done, w.journal.done))
}

// put writes one range, or looks at a hole.
func (w *writer) put(l loaded, scratch []byte) error {
	if l.Hole {
		return w.zero(l.Range, scratch)
	}
	if err := w.write(l.raw, l.Off); err != nil {
		return err
	}
	w.result.Written += l.Len
	w.add(l.Len)
	return nil
}

// zero makes a hole read as zeros. Reading is several times faster than writing, and most
// cards are zero after they were told to discard.
func (w *writer) zero(r Range, scratch []byte) error {
	for off := r.Off; off < r.Off+r.Len; off += maxRange {
		part := scratch[:min(maxRange, r.Off+r.Len-off)]
		if err := w.read(part, off); err != nil {
			return err
		}
		if !zeros(part) {
			clear(part)
			if err := w.write(part, off); err != nil {
				return err
			}
			w.result.Zeroed += int64(len(part))
		}
		w.add(int64(len(part)))
	}
	return nil
}

// keep leaves out the ranges that an earlier try wrote and that still read back right.
func (w *writer) keep() (ranges []Range, err error) {
	var total int64
	for _, r := range w.image.blocks.Ranges[1:] {
		if r.Off+r.Len <= w.journal.done {
			total += r.Len
		}
	}
	if total == 0 {
		return w.image.blocks.Ranges[1:], nil
	}
	w.begin(PhaseResume, total)
	scratch := aligned(maxRange)
	for _, r := range w.image.blocks.Ranges[1:] {
		if r.Off+r.Len > w.journal.done {
			ranges = append(ranges, r)
			continue
		}
		_, err := w.check(r, scratch, nil)
		var f *Fault
		switch {
		case errors.As(err, &f) && f.Code == codeDiffers:
			ranges = append(ranges, r)
		case err != nil:
			return nil, err
		default:
			w.result.Resumed += r.Len
		}
		w.add(r.Len)
	}
	return ranges, nil
}

// loaded is a range whose data was unpacked and checked, or why it could not be.
type loaded struct {
	Range
	raw    []byte // of buffer
	buffer []byte
	err    error
}

type loads struct {
	ready chan loaded
	free  chan []byte // buffers that come back
}

// prefetch unpacks the next ranges while one is being written.
func (w *writer) prefetch(ctx context.Context, ranges []Range) loads {
	const ahead = 3
	l := loads{ready: make(chan loaded), free: make(chan []byte, ahead)}
	for range ahead {
		l.free <- aligned(maxRange)
	}
	go func() {
		defer close(l.ready)
		packed := make([]byte, maxPacked)
		for _, r := range ranges {
			next := loaded{Range: r}
			select {
			case next.buffer = <-l.free:
			case <-ctx.Done():
				return
			}
			if !r.Hole {
				next.raw, next.err = w.image.load(r, packed, next.buffer)
			}
			select {
			case l.ready <- next:
			case <-ctx.Done():
				return
			}
		}
	}()
	return l
}

// Verify reads a card and holds every byte of the image against it. The card is as it was
// flashed: one that has booted differs, in its boot state and its data.
func Verify(ctx context.Context, job Job) (Result, error) {
	w, err := begin(ctx, job)
	if err != nil {
		return Result{}, err
	}
	err = w.readBack(w.image.blocks.Ranges, w.image.Size)
	w.result.Took = time.Since(w.began)
	return w.result, err
}

// readBack reads ranges from the medium, to the first that differs.
func (w *writer) readBack(ranges []Range, total int64) error {
	if err := w.sync(); err != nil {
		return err
	}
	w.begin(PhaseVerify, total)
	scratch := aligned(maxRange)
	for _, r := range ranges {
		n, err := w.check(r, scratch, w.add)
		w.result.Verified += n
		if err != nil {
			return err
		}
	}
	if w.result.Written == 0 {
		w.result.Speed, w.result.Slowest = w.pace()
	}
	return nil
}

// check reads one range and tells how much of it was found right. What differs is F13, or
// F14 where it is another part of the image.
func (w *writer) check(r Range, scratch []byte, count func(int64)) (n int64, err error) {
	for off := r.Off; off < r.Off+r.Len; off += maxRange {
		part := scratch[:min(maxRange, r.Off+r.Len-off)]
		if err := w.read(part, off); err != nil {
			return n, err
		}
		sum := sha256.Sum256(part)
		if r.Hole && !zeros(part) || !r.Hole && sum != r.SHA256 {
			return n, w.differs(r, off, sum)
		}
		n += int64(len(part))
		if count != nil {
			count(int64(len(part)))
		}
	}
	return n, nil
}

// differs says what lies where a range should: another range's data comes from a card that
// has fewer places than it says.
func (w *writer) differs(r Range, off int64, found [32]byte) error {
	for _, other := range w.image.blocks.Ranges {
		if !other.Hole && other.SHA256 == found && other.SHA256 != r.SHA256 {
			return fault(codeFake, w.medium.Name(), "at %d lies what was written at %d", off, other.Off)
		}
	}
	what := "data"
	if r.Hole {
		what = "zeros"
	}
	return fault(codeDiffers, w.medium.Name(), "the %s at %d, %d bytes, do not read back as they were written", what, off, min(maxRange, r.Off+r.Len-off))
}
