package printer

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"
)

// slice is how long one write may block before the context is looked at.
const slice = 200 * time.Millisecond

// sending is one job from its first byte to its proof, on the owner's goroutine.
type sending struct {
	d       *Device
	l       *link
	o       *order
	answers bool // the printer can be asked
	data    []byte

	id     [4]byte
	wantID bool
	before uint64 // answers to GS r before this job asked
	sent   int
	free   time.Time // when the bytes sent so far have passed the line
	held   bool

	ahead   int      // bytes before the slip's own
	pieces  []flight // what the printer has not printed yet, by the clock
	printed time.Time
	waiting bool  // the busy line says wait
	pin     error // or cannot be read
}

// flight is a piece on its way to the paper.
type flight struct {
	bytes int
	done  time.Time
}

// prepare adds what goes before and after the slip itself.
func (s *sending) prepare() error {
	var head []byte
	if s.d.torn {
		head = resync(s.d.cfg.Profile)
	}
	head = append(head, s.o.first...)
	s.data, s.ahead = slices.Concat(head, s.data), len(head)
	// A printer that answers nothing gets no questions: a clone prints them as text.
	if s.answers && !s.o.pulse {
		if s.d.cfg.Profile.Completion && !s.d.noProcessID {
			id, err := s.d.newID()
			if err != nil {
				return err
			}
			s.id, s.wantID = id, true
			s.data = append(s.data, processRequest(id)...)
		}
		s.data = append(s.data, sensorRequest()...)
	}
	return nil
}

// send hands all bytes over, in pieces the printer can take after it said that it
// is nearly full. It returns how the job ended, or nil when all is sent. No status
// is asked meanwhile: a request inside another command would be taken for its data.
func (s *sending) send(ctx context.Context) *outcome {
	for s.sent < len(s.data) {
		piece := s.data[s.sent:min(len(s.data), s.sent+s.d.cfg.Profile.Chunk)]
		if s.sent+len(piece) == len(s.data) {
			s.noteAnswers()
		}
		if err := s.push(ctx, piece); err != nil {
			return s.broken(err)
		}
	}
	s.release()
	s.d.torn = false
	return nil
}

// noteAnswers counts the answers to GS r, before the last byte of the question leaves: what
// came earlier answers something else, or is noise.
func (s *sending) noteAnswers() {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	s.before = s.l.sensed
}

// push sends one piece and waits until it has left the system's buffer. A printer
// that takes nothing for the write time limit is reported as held, and the piece
// goes on when it takes data again.
func (s *sending) push(ctx context.Context, piece []byte) error {
	cfg := &s.d.cfg
	if err := s.pace(ctx, len(piece)); err != nil {
		return err
	}
	stuck := time.Now().Add(cfg.WriteTimeout)
	for {
		if err := s.mayGoOn(ctx); err != nil {
			return err
		}
		if s.held && s.asked(true) {
			return ErrCleared
		}
		n := 0
		if s.ready(ctx) && len(piece) > 0 {
			var err error
			n, err = s.l.port.Write(piece, time.Now().Add(slice))
			s.sent += n
			s.free = time.Now().Add(s.l.port.passing(n, cfg.Baud))
			piece = piece[n:]
			if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
				return err
			}
		}
		if len(piece) == 0 {
			step := max(time.Millisecond, transfer(cfg.Profile.Chunk, cfg.Baud)/4)
			empty, err := s.l.port.Drained(ctx, time.Now().Add(slice), step)
			if err != nil || empty {
				return err
			}
		}
		if n > 0 {
			s.release()
			stuck = time.Now().Add(cfg.WriteTimeout)
		} else if time.Now().After(stuck) {
			s.hold(s.blocked())
		}
	}
}

// pace waits, for a model that cannot say "wait", until n more bytes fit its buffer by
// what it has printed since, at its speed. What comes on top of a full buffer is lost.
func (s *sending) pace(ctx context.Context, n int) error {
	p := &s.d.cfg.Profile
	if !p.Paced || s.o.pulse {
		return nil
	}
	for {
		taken := n
		s.pieces = slices.DeleteFunc(s.pieces, func(f flight) bool { return !f.done.After(time.Now()) })
		for _, f := range s.pieces {
			taken += f.bytes
		}
		if len(s.pieces) == 0 || taken <= p.Buffer {
			break
		}
		s.l.await(ctx, time.Until(s.pieces[0].done), func() bool { return false })
		if err := s.mayGoOn(ctx); err != nil {
			return err
		}
	}
	from, to := s.sent-s.ahead, s.sent-s.ahead+n
	begin := time.Now().Add(s.l.port.passing(n, s.d.cfg.Baud))
	if s.printed.After(begin) {
		begin = s.printed
	}
	s.printed = begin.Add(p.feeding(s.o.job.height(to) - s.o.job.height(from)))
	s.pieces = append(s.pieces, flight{n, s.printed})
	return nil
}

// mayGoOn is nil while the connection stands and the caller still waits.
func (s *sending) mayGoOn(ctx context.Context) error {
	if err := s.l.lost(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// ready waits until the line is free, and for a moment while the printer says XOFF.
// The system's buffer can be empty while an adapter still holds bytes: without the
// wait an XOFF would come when everything is on its way already.
func (s *sending) ready(ctx context.Context) bool {
	if wait := time.Until(s.free); wait > 0 {
		s.l.await(ctx, wait, func() bool { return false })
	}
	return s.l.await(ctx, slice, func() bool { return !s.l.stopped }) && s.listened(ctx)
}

// listened waits a moment for the busy line, if there is one, to let the next piece pass.
func (s *sending) listened(ctx context.Context) bool {
	cfg := &s.d.cfg
	if cfg.Busy == nil {
		return true
	}
	step := max(time.Millisecond, transfer(cfg.Profile.Chunk, cfg.Baud)/4)
	for over := time.Now().Add(slice); ; {
		if s.waiting, s.pin = cfg.Busy(); s.pin == nil && !s.waiting {
			return true
		}
		if s.l.await(ctx, step, func() bool { return false }); ctx.Err() != nil || time.Now().After(over) {
			return false
		}
	}
}

// blocked is the cause of a stop, as far as the printer told it.
func (s *sending) blocked() Fault {
	if f := s.l.fault(); f != nil && f.Stops {
		return *f
	}
	switch {
	case s.pin != nil:
		return pinBroken(s.pin)
	case s.waiting:
		return busyLine()
	}
	return stalled(nil)
}

// broken ends a job that was not sent to its end. What the system still keeps of
// it is dropped, and the next job starts by closing what this one left open.
func (s *sending) broken(err error) *outcome {
	if s.sent == 0 {
		cause := busy(err) // the caller's time was over before the first byte
		switch {
		case s.l.lost() != nil:
			cause = notConnected(err)
		case s.held:
			cause = s.blocked()
			cause.Err = err
		}
		return &outcome{StateHeld, &Held{Cause: cause, NothingSent: true}}
	}
	s.d.torn = true
	if s.l.lost() == nil {
		err = errors.Join(err, s.l.port.Discard())
	}
	return s.unknown(err)
}

func (s *sending) unknown(err error) *outcome {
	return &outcome{StateUnknown, &Unknown{Sent: s.sent, Total: len(s.data), Err: err}}
}

// hold tells the caller, once, that the slip waits for a person.
func (s *sending) hold(f Fault) {
	s.d.mu.Lock()
	if s.d.holding == nil || s.d.holding.Code != f.Code {
		s.d.set(func() { s.d.holding, s.d.status.Fault = &f, &f })
	}
	s.d.mu.Unlock()
	if !s.held {
		s.held = true
		s.o.watch(StateHeld)
	}
}

// release tells the caller that the slip goes on.
func (s *sending) release() {
	if !s.held {
		return
	}
	s.held = false
	s.d.mu.Lock()
	s.d.set(func() {
		if s.d.status.Fault == s.d.holding {
			s.d.status.Fault = nil
		}
		s.d.holding = nil
	})
	s.d.mu.Unlock()
	s.o.watch(StateSending)
}

// settle waits for the best proof the model gives. While the printer names a
// fault, or says nothing at all, the slip is held. A healthy printer that keeps
// its proof back for the slip's own time and the grace is taken at the level
// reached: some models do not know the question.
func (s *sending) settle(ctx context.Context) (State, error) {
	cfg := &s.d.cfg
	usual := transfer(len(s.data), cfg.Baud) + cfg.Profile.mechanics(s.o.job.dots) + cfg.Grace
	patience := time.Now().Add(usual)
	for {
		if s.l.await(ctx, cfg.AnswerTimeout, s.proven) {
			s.release()
			s.d.reads = true
			s.d.proved = s.d.proved || s.wantID
			return s.level(), nil
		}
		if err := s.mayGoOn(ctx); err != nil {
			return s.giveUp(err)
		}
		if s.asked(false) {
			return s.giveUp(ErrCleared)
		}
		fault := s.trouble(ctx)
		switch {
		case fault != nil && s.l.fatal():
			// Only switching off clears it, and what the printer still kept is gone then.
			s.hold(*fault)
			return s.forgotten(errFatal)
		case fault != nil:
			s.hold(*fault)
			patience = time.Now().Add(usual)
		case time.Now().After(patience):
			s.release()
			return s.settleFor()
		default:
			s.release()
		}
	}
}

// trouble is what keeps the slip inside the printer, or nil.
func (s *sending) trouble(ctx context.Context) *Fault {
	cfg := &s.d.cfg
	err := s.l.survey(ctx, cfg.AnswerTimeout, cfg.Profile.Status == Can)
	if err != nil {
		f := silent(err) // where the link is lost or ctx has ended, the next look says so
		return &f
	}
	s.d.publish(s.l.status())
	if f := s.l.fault(); f != nil && f.Stops {
		return f
	}
	return nil
}

// proven says that no better proof can come. The link's lock is held.
func (s *sending) proven() bool {
	if s.wantID {
		return s.l.printed == s.id
	}
	return s.l.sensed > s.before
}

// level is the proof reached so far.
func (s *sending) level() State {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	switch {
	case s.wantID && s.l.printed == s.id:
		return StatePrinted
	case s.l.sensed > s.before:
		return StateConsumed
	default:
		return StateSent
	}
}

// settleFor is the end of a job whose best proof never came. A model that read
// past the request for its process id without an answer is not asked for one again. One
// that tells its status, and still has not read to the job's end, has lost the job: it
// was switched off and on meanwhile, or lost bytes.
func (s *sending) settleFor() (State, error) {
	level := s.level()
	switch {
	case s.wantID && s.d.proved && level != StatePrinted:
		// It answers process ids: this one was lost, or the slip was and noise on the line
		// looked like the one byte of the lesser proof.
		return s.forgotten(errUnproved)
	case s.wantID && level == StateConsumed:
		s.d.noProcessID = true
		s.d.log.Warn("printer answers no process id: its profile promises too much", "profile", s.d.cfg.Profile.Name)
	case level == StateSent && (s.d.cfg.Profile.Status == Can || s.d.reads):
		return s.forgotten(errForgot)
	}
	return level, nil
}

// Why a job that was sent whole will not come out whole.
var (
	errFatal    = errors.New("the printer has an error that only switching it off clears, and forgets the slip with it")
	errUnproved = errors.New("the printer, which proves its slips, gave no proof of this one")
	errForgot   = errors.New("the printer is well and never read the slip to its end: it was switched off, or lost bytes")
)

// forgotten ends a job that the printer has lost. What it printed of it hangs out uncut.
func (s *sending) forgotten(why error) (State, error) {
	s.d.torn = true
	end := s.unknown(why)
	return end.state, end.err
}

// giveUp ends the wait for a proof. A proof already there counts, except that a
// held printer may have read the job without printing it, and a cleared one forgot it.
func (s *sending) giveUp(err error) (State, error) {
	if level := s.level(); level == StatePrinted || level == StateConsumed && !s.held && !errors.Is(err, ErrCleared) {
		return level, nil
	}
	end := s.unknown(err)
	return end.state, end.err
}
