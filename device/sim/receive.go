package sim

import (
	"errors"
	"slices"
	"time"
)

// answerLimit is how long an answer waits for a driver that does not read.
const answerLimit = 200 * time.Millisecond

// errVoid means that what is being parsed no longer exists: the buffer was cleared
// or the printer switched off in the middle of it.
var (
	errVoid   = errors.New("receive buffer cleared")
	errClosed = errors.New("printer closed")
)

// receive moves bytes from one plugged-in line into the buffer until the line goes.
func (p *Printer) receive(line *pty) {
	chunk := make([]byte, 256)
	for {
		room := p.awaitRoom(line, len(chunk))
		if room == 0 {
			return
		}
		n, err := line.read(chunk[:room])
		if err != nil {
			return
		}
		if p.take(chunk[:n]) {
			// The link may be gone already; then there is nothing left to pull.
			_ = p.socket.unplug()
			return
		}
	}
}

// awaitRoom blocks until the buffer has room and returns how much of most, or 0
// when the line went or the printer closed.
func (p *Printer) awaitRoom(line *pty, most int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		select {
		case <-line.gone:
			return 0
		default:
		}
		room := p.opt.Buffer - len(p.buf)
		if p.opt.DropWhenFull {
			room = most
		}
		if p.hangUp > 0 {
			room = min(room, p.hangUp)
		}
		switch {
		case p.closed:
			return 0
		case room > 0:
			return min(room, most)
		}
		p.changed.Wait()
	}
}

// take stores bytes, acts on real-time commands among them, and reports whether
// the cable is to come out now.
func (p *Printer) take(b []byte) bool {
	p.mu.Lock()
	var answers []byte
	for _, c := range b {
		if len(p.buf) < p.opt.Buffer {
			p.buf = append(p.buf, c)
		} else {
			p.dropped++
		}
		if cmd := p.real.feed(c); cmd != nil {
			answers = append(answers, p.obey(cmd)...)
		}
	}
	p.received += len(b)
	out := false
	if p.hangUp > 0 {
		p.hangUp -= len(b)
		out = p.hangUp <= 0
		p.hangUp = max(0, p.hangUp)
	}
	p.changed.Broadcast()
	p.mu.Unlock()
	p.answer(answers)
	return out
}

// answer sends bytes to the driver, unless the printer is one-way or unplugged.
// What nobody takes is lost, as on a real line. Must not be called with mu held.
func (p *Printer) answer(b []byte) {
	line := p.socket.current()
	if len(b) == 0 || line == nil || p.State().OneWay {
		return
	}
	if err := line.write(b, answerLimit); err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.unheard += len(b)
	}
}

// clear empties the receive buffer and makes what was begun from it void.
func (p *Printer) clear() {
	p.buf = nil
	p.clears++
}

// pull waits for the next byte the mechanism may take. It blocks while there is
// none, while the printer is offline, and while it is stalled.
func (p *Printer) pull(clears int) (byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.closed:
			return 0, errClosed
		case p.clears != clears:
			return 0, errVoid
		case len(p.buf) > 0 && !p.state.Stalled && !p.state.offline():
			c := p.buf[0]
			p.buf = p.buf[1:]
			p.changed.Broadcast() // there is room
			return c, nil
		}
		p.changed.Wait()
	}
}

// lineDone puts a line on the paper and uses up the roll. It takes LineDelay.
func (p *Printer) lineDone(l Line) {
	if p.opt.LineDelay > 0 {
		t := time.NewTimer(p.opt.LineDelay)
		select {
		case <-t.C:
		case <-p.done:
			t.Stop()
		}
	}
	p.mu.Lock()
	p.lines = append(p.lines, l)
	if p.paper > 0 {
		if p.paper--; p.paper == 0 {
			p.state.PaperEnd = true
		}
	}
	report := p.statusChange()
	p.changed.Broadcast()
	p.mu.Unlock()
	p.answer(report)
}

// cutPaper cuts what is out. With the cutter jammed it waits until somebody has
// cleared it, and reports errVoid when the job was cancelled meanwhile.
func (p *Printer) cutPaper(kind Cut, clears int) error {
	p.mu.Lock()
	if p.state.CutterJam {
		p.state.CutterJam, p.state.CutterError = false, true
	}
	report := p.statusChange()
	p.mu.Unlock()
	p.answer(report)

	p.mu.Lock()
	defer p.mu.Unlock()
	for p.state.CutterError && !p.closed {
		p.changed.Wait()
	}
	switch {
	case p.closed:
		return errClosed
	case p.clears != clears: // cancelled together with its cut
		return errVoid
	}
	p.slips = append(p.slips, Slip{Columns: p.opt.Columns, Lines: slices.Clip(p.lines), Cut: kind})
	p.lines = nil
	p.changed.Broadcast()
	return nil
}

// statusChange returns the automatic status when it is wanted and has changed.
// Called with mu held.
func (p *Printer) statusChange() []byte {
	now := autoStatus(p.state)
	if p.asb == 0 || now == p.lastASB {
		return nil
	}
	p.lastASB = now
	return now[:]
}

// kick records a pulse of the drawer.
func (p *Printer) kick(k Pulse) {
	k.At = time.Now()
	p.pulses = append(p.pulses, k)
}
