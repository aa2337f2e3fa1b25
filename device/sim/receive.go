package sim

import (
	"errors"
	"math/rand/v2"
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
		for rest := chunk[:n]; len(rest) > 0; {
			piece := rest[:p.atOnce(len(rest))]
			if p.take(piece) {
				// The link may be gone already; then there is nothing left to pull. The
				// rest is lost, as the kernel loses it.
				_ = p.socket.unplug()
				return
			}
			p.pass(line, len(piece))
			rest = rest[len(piece):]
		}
	}
}

// atOnce is how many of n bytes come together: what a slow line brings in 10 ms, and
// no more than there is until the cable is pulled.
func (p *Printer) atOnce(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.opt.Baud > 0 {
		n = min(n, max(1, p.opt.Baud/1000))
	}
	if p.hangUp > 0 {
		n = min(n, p.hangUp)
	}
	return n
}

// pass lets the time go that n bytes take on a line of the set speed.
func (p *Printer) pass(line *pty, n int) {
	baud := p.options().Baud
	if baud == 0 {
		return
	}
	const bitsPerByte = 10 // with start and stop
	p.rest(time.Duration(n)*bitsPerByte*time.Second/time.Duration(baud), line.gone)
}

// rest waits for d, or until the printer is closed or the channel is.
func (p *Printer) rest(d time.Duration, gone <-chan struct{}) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-p.done:
	case <-gone:
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
		if p.opt.DropWhenFull || p.state.Off {
			room = most
		}
		if p.opt.Baud > 0 {
			room = min(room, max(1, p.opt.Baud/1000)) // the driver's write is to be slow, too
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
		if p.state.Off {
			p.dropped++
			continue
		}
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

// answer sends an answer to the driver, unless the printer is one-way or off. Must
// not be called with mu held.
func (p *Printer) answer(b []byte) {
	if s := p.State(); len(b) == 0 || s.OneWay || s.Off {
		return
	}
	p.send(p.spoil(b))
}

// spoil gives random bytes in the place of an answer that is to be garbage.
func (p *Printer) spoil(b []byte) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.garbled == 0 {
		return b
	}
	p.garbled--
	return noise(p.noise, len(b))
}

// noise is n random bytes.
func noise(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// send puts bytes on the line. What nobody takes is lost, as on a real one.
func (p *Printer) send(b []byte) {
	line := p.socket.current()
	if line == nil {
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

// void reports whether what was begun from the buffer is void.
func (p *Printer) void(clears int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.clears != clears
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
	p.rest(p.options().LineDelay, nil)
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
	k.At, k.Slips, k.Lines = time.Now(), len(p.slips), len(p.lines)
	p.pulses = append(p.pulses, k)
	p.changed.Broadcast()
}
