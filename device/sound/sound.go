// Package sound plays what the counter shows: a win, no win, and anything that is not paid
// here and now. The three differ in shape, not in pitch alone, so that they are told apart
// by a poor speaker, and no sound tells how much was won. The daemon plays them, through a
// small program, because a browser may refuse to play before somebody has touched the page.
// It decides nothing, and a counter without a speaker works as well. Start at Player.Run.
package sound

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os/exec"
	"time"

	"grattoir/device/gpio"
	"grattoir/device/terminal"
)

// Counter is what the sounds follow: *terminal.Terminal.
type Counter interface {
	State() (terminal.State, <-chan struct{})
}

// Player plays the sounds of a counter.
type Player struct {
	// Play plays a WAV file of 16-bit mono and returns when it has ended or ctx has.
	Play   func(ctx context.Context, wav []byte) error
	Volume int // 0 to 100; 0 is silence
	Log    *slog.Logger
}

// Run plays one sound for each view until ctx ends. A new view cuts the older one's sound
// off: the sound that is heard is that of the view that is seen. What was shown at the start
// makes none, for it was heard before.
func (p *Player) Run(ctx context.Context, counter Counter) {
	var last, broken string
	var now *sounding
	defer func() { now.end() }()
	for first := true; ; first = false {
		state, changed := counter.State()
		if name := gpio.NameOf(state.View); name != last {
			last = name
			if !first {
				now.end()
				now = p.begin(ctx, gpio.SignalOf(state.View))
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case err := <-now.over():
			now.cut() // only to free what it holds
			now = nil
			broken = p.told(broken, err)
		}
	}
}

// sounding is a sound that is being played. A nil one is silence.
type sounding struct {
	cut   context.CancelFunc
	ended chan error
}

// begin starts a signal's sound, nil for one without.
func (p *Player) begin(ctx context.Context, s gpio.Signal) *sounding {
	wav := Wave(s, p.Volume)
	if wav == nil {
		return nil
	}
	ctx, cut := context.WithCancel(ctx)
	now := &sounding{cut, make(chan error, 1)}
	go func() { now.ended <- p.Play(ctx, wav) }()
	return now
}

// over tells the end of the sound; of silence there is none.
func (n *sounding) over() <-chan error {
	if n == nil {
		return nil
	}
	return n.ended
}

// end cuts the sound off and waits for that.
func (n *sounding) end() {
	if n != nil {
		n.cut()
		<-n.ended
	}
}

// told logs an error once, not at every sound.
func (p *Player) told(before string, err error) string {
	now := ""
	if err != nil {
		now = err.Error()
	}
	if now != "" && now != before {
		p.Log.Warn("a sound could not be played: see sound.program, and the speaker", "err", err)
	}
	return now
}

// playFor bounds a program that hangs, many times the longest sound.
const playFor = 5 * time.Second

// Program plays through a program that reads a WAV file from its standard input, as
// "aplay -q -". The error says what it wrote.
func Program(name string, args ...string) func(context.Context, []byte) error {
	return func(ctx context.Context, wav []byte) error {
		bounded, cancel := context.WithTimeout(ctx, playFor)
		defer cancel()
		cmd := exec.CommandContext(bounded, name, args...)
		cmd.WaitDelay = time.Second
		cmd.Stdin = bytes.NewReader(wav)
		said := &tail{}
		cmd.Stderr = said
		err := cmd.Run()
		if err == nil || ctx.Err() != nil { // a newer view cut it off
			return nil
		}
		return fmt.Errorf("%s: %w", name, errors.Join(err, said.err()))
	}
}

// tail keeps the beginning of what a program complains.
type tail struct{ b []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p[:min(len(p), 200-min(200, len(t.b)))]...)
	return len(p), nil
}

func (t *tail) err() error {
	if len(t.b) == 0 {
		return nil
	}
	return fmt.Errorf("it said: %q", t.b)
}

// note is a tone, or a pause where it has no pitch.
type note struct {
	hertz float64
	lasts time.Duration
}

// notes are a signal's sound, at most 600 ms of it. A payment sounds no more: its win was
// heard when the ticket was checked.
func notes(s gpio.Signal) []note {
	const ms = time.Millisecond
	switch s {
	case gpio.Winning:
		return []note{{660, 130 * ms}, {0, 30 * ms}, {990, 330 * ms}}
	case gpio.NoWin:
		return []note{{220, 180 * ms}}
	case gpio.Refusing, gpio.Asking:
		return []note{{440, 120 * ms}, {0, 90 * ms}, {440, 120 * ms}, {0, 90 * ms}, {440, 120 * ms}}
	}
	return nil
}

const (
	rate = 22050                // samples a second
	soft = 8 * time.Millisecond // in which a tone comes and goes, or the speaker clicks
)

// Wave is the WAV file of a signal at a volume of 0 to 100, nil for silence.
func Wave(s gpio.Signal, volume int) []byte {
	list := notes(s)
	if len(list) == 0 || volume <= 0 {
		return nil
	}
	loud := float64(min(volume, 100)) / 100 * 0.9 * math.MaxInt16
	var samples []int16
	for _, n := range list {
		count := int(n.lasts.Seconds() * rate)
		edge := soft.Seconds() * rate
		for i := range count {
			shape := min(1, float64(i)/edge, float64(count-1-i)/edge)
			samples = append(samples, int16(loud*shape*math.Sin(2*math.Pi*n.hertz*float64(i)/rate)))
		}
	}
	return wav(samples)
}

// wav puts the header of RIFF, format 1 (PCM), one channel of 16 bits, before samples.
func wav(samples []int16) []byte {
	size := uint32(2 * len(samples))
	b := append([]byte("RIFF"), binary.LittleEndian.AppendUint32(nil, 36+size)...)
	b = append(b, "WAVEfmt "...)
	b = binary.LittleEndian.AppendUint32(b, 16)
	b = binary.LittleEndian.AppendUint16(b, 1)
	b = binary.LittleEndian.AppendUint16(b, 1)
	b = binary.LittleEndian.AppendUint32(b, rate)
	b = binary.LittleEndian.AppendUint32(b, 2*rate)
	b = binary.LittleEndian.AppendUint16(b, 2)
	b = binary.LittleEndian.AppendUint16(b, 16)
	b = append(b, "data"...)
	b = binary.LittleEndian.AppendUint32(b, size)
	for _, s := range samples {
		b = binary.LittleEndian.AppendUint16(b, uint16(s))
	}
	return b
}
