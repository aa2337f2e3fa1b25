package seal

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	mathrand "math/rand/v2"

	"grattoir/validate/manifest"
	"grattoir/validate/ticket"
)

// Sample describes a set of made-up tickets for tests and training.
type Sample struct {
	Layout      ticket.Layout
	GameCode    string
	Tickets     int64
	FirstPack   uint32
	PackSize    int
	FirstTicket int
	Tiers       []manifest.Tier // the table for this many tickets
	// Seed makes the sample repeatable: whoever knows the seed knows every winner.
	// Empty takes the system's randomness.
	Seed string
}

// Write writes tickets.csv in the order of ticket numbers. The prizes are spread over
// the tickets uniformly: every order of them is equally likely.
func (s Sample) Write(out io.Writer, progress func(done int64)) error {
	if s.Tickets < 1 || s.Tickets > maxTickets || s.PackSize < 1 {
		return fmt.Errorf("%d tickets in packs of %d: want 1 to %d tickets", s.Tickets, s.PackSize, int64(maxTickets))
	}
	rng := mathrand.New(systemSource{bufio.NewReaderSize(rand.Reader, 1<<16)})
	if s.Seed != "" {
		rng = mathrand.New(mathrand.NewChaCha8(sha256.Sum256([]byte(s.Seed))))
	}
	tier, err := s.spread(rng)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(out, 1<<18)
	if _, err := w.WriteString(CSVHeader + "\n"); err != nil {
		return err
	}
	width := s.Layout.Width(ticket.Secret)
	var secret [maxSecret]byte
	var line []byte
	for i, t := range tier {
		randomDigits(rng, secret[:width])
		pack := s.FirstPack + uint32(i/s.PackSize)
		c, err := ticket.Make(s.Layout, s.GameCode, pack, uint16(s.FirstTicket+i%s.PackSize), string(secret[:width]))
		if err != nil {
			return err
		}
		prize := int64(0)
		if t > 0 {
			prize = int64(s.Tiers[t-1].Amount)
		}
		line = fmt.Appendf(c.AppendDigits(line[:0]), ",%d\n", prize)
		if _, err := w.Write(line); err != nil {
			return err
		}
		if i%100000 == 99999 || i == len(tier)-1 {
			progress(int64(i + 1))
		}
	}
	return w.Flush()
}

// spread shuffles the tiers over the tickets (Fisher and Yates).
func (s Sample) spread(rng *mathrand.Rand) ([]uint8, error) {
	tier := make([]uint8, s.Tickets)
	at := int64(0)
	for t, row := range s.Tiers {
		if row.Count > s.Tickets-at {
			return nil, fmt.Errorf("the prize table has more prizes than the %d tickets", s.Tickets)
		}
		copy(tier[at:at+row.Count], bytes.Repeat([]byte{uint8(t + 1)}, int(row.Count)))
		at += row.Count
	}
	rng.Shuffle(len(tier), func(i, j int) { tier[i], tier[j] = tier[j], tier[i] })
	return tier, nil
}

// randomDigits fills b with uniform digits, up to 18 from one draw.
func randomDigits(rng *mathrand.Rand, b []byte) {
	for len(b) > 0 {
		n := min(len(b), 18)
		limit := uint64(1)
		for range n {
			limit *= 10
		}
		v := rng.Uint64N(limit)
		for i := n - 1; i >= 0; i-- {
			b[i] = byte('0' + v%10)
			v /= 10
		}
		b = b[n:]
	}
}

// systemSource draws from the system's randomness through a buffer.
type systemSource struct{ r io.Reader }

// Uint64 never fails: crypto/rand ends the program if the system has no randomness.
func (s systemSource) Uint64() uint64 {
	var b [8]byte
	_, _ = io.ReadFull(s.r, b[:])
	return binary.LittleEndian.Uint64(b[:])
}
