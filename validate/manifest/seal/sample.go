package seal

import (
	"bufio"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
	mathrand "math/rand/v2"
	"runtime"
	"slices"
	"sync"

	"grattoir/validate/game/rules"
	"grattoir/validate/manifest"
	"grattoir/validate/money"
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
	// Rules draw each ticket's symbols, which are written to Symbols as symbols.csv, in
	// the order of tickets.csv. Nil for a sample without symbols.
	Rules   rules.Maker
	Symbols io.Writer
}

// outcome is a way to a prize with the number of tickets that still get it.
type outcome struct {
	prize money.Amount
	way   int // of Rules
	left  int64
}

// Write writes tickets.csv in the order of ticket numbers, in constant memory. Every
// order of the prizes is equally likely: each ticket draws from what is left of the
// prize table. With Rules a prize's tickets are shared among its ways by their shares,
// to the ticket; what Draw calls uniform holds within a way.
func (s Sample) Write(out io.Writer, progress func(done int64)) error {
	if s.Tickets < 1 || s.Tickets > maxTickets || s.PackSize < 1 {
		return fmt.Errorf("%d tickets in packs of %d: want 1 to %d tickets", s.Tickets, s.PackSize, int64(maxTickets))
	}
	outcomes, err := s.outcomes()
	if err != nil {
		return err
	}
	source := bufio.NewReaderSize(rand.Reader, 1<<16)
	rng := mathrand.New(systemSource{source})
	if s.Seed != "" {
		rng = mathrand.New(mathrand.NewChaCha8(sha256.Sum256([]byte(s.Seed))))
	}
	files := []*bufio.Writer{bufio.NewWriterSize(out, 1<<18)}
	if _, err := files[0].WriteString(CSVHeader + "\n"); err != nil {
		return err
	}
	if s.Rules != nil {
		files = append(files, bufio.NewWriterSize(s.Symbols, 1<<18))
		if _, err := files[1].WriteString(SymbolsHeader + "\n"); err != nil {
			return err
		}
	}
	if err := s.batches(rng, outcomes, files, progress); err != nil {
		return err
	}
	for _, f := range files {
		if err := f.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// sampleBatch is a run of tickets on its way through a drawing worker.
type sampleBatch struct {
	first   int64
	ways    []int
	seed    [32]byte
	tickets []byte // lines of tickets.csv
	symbols []byte // lines of symbols.csv
	done    chan struct{}
}

const sampleLines = 2048

// batches deals the tickets in order, draws their symbols on all cores, and writes
// both in order.
func (s Sample) batches(rng *mathrand.Rand, outcomes []outcome, files []*bufio.Writer, progress func(int64)) error {
	queue := make(chan *sampleBatch, 2*runtime.GOMAXPROCS(0))
	work := make(chan *sampleBatch)
	stop := make(chan struct{})
	var workers sync.WaitGroup
	defer workers.Wait()
	defer close(stop)
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for b := range work {
				s.drawSymbols(b)
				close(b.done)
			}
		})
	}
	var dealErr error
	workers.Go(func() {
		defer close(queue)
		defer close(work)
		for first := int64(0); first < s.Tickets; first += sampleLines {
			b := &sampleBatch{first: first, done: make(chan struct{})}
			if dealErr = s.deal(b, min(sampleLines, s.Tickets-first), rng, outcomes); dealErr != nil {
				return
			}
			select {
			case work <- b:
			case <-stop:
				return
			}
			select {
			case queue <- b:
			case <-stop:
				return
			}
		}
	})
	done := int64(0)
	for b := range queue {
		<-b.done
		done += int64(len(b.ways))
		if _, err := files[0].Write(b.tickets); err != nil {
			return err
		}
		if s.Rules != nil {
			if _, err := files[1].Write(b.symbols); err != nil {
				return err
			}
		}
		progress(done)
	}
	return dealErr
}

// deal gives n tickets their code and prize.
func (s Sample) deal(b *sampleBatch, n int64, rng *mathrand.Rand, outcomes []outcome) error {
	width := s.Layout.Width(ticket.Secret)
	var secret [maxSecret]byte
	for i := b.first; i < b.first+n; i++ {
		o := draw(outcomes, s.Tickets-i, rng)
		randomDigits(rng, secret[:width])
		pack, number := s.place(i)
		c, err := ticket.Make(s.Layout, s.GameCode, pack, number, string(secret[:width]))
		if err != nil {
			return err
		}
		b.tickets = fmt.Appendf(c.AppendDigits(b.tickets), ",%d\n", o.prize)
		b.ways = append(b.ways, o.way)
	}
	if s.Rules != nil {
		for i := range 4 {
			binary.LittleEndian.PutUint64(b.seed[8*i:], rng.Uint64())
		}
	}
	return nil
}

// draw takes one outcome out of those left for the rest of the tickets.
func draw(outcomes []outcome, rest int64, rng *mathrand.Rand) outcome {
	at := rng.Int64N(rest)
	for i := range outcomes {
		if at < outcomes[i].left {
			outcomes[i].left--
			return outcomes[i]
		}
		at -= outcomes[i].left
	}
	panic("seal: the outcomes are fewer than the tickets") // outcomes sums up to Tickets
}

func (s Sample) drawSymbols(b *sampleBatch) {
	if s.Rules == nil {
		return
	}
	rng := mathrand.New(mathrand.NewChaCha8(b.seed))
	for k, way := range b.ways {
		pack, number := s.place(b.first + int64(k))
		b.symbols = fmt.Appendf(b.symbols, "%d,%d,", pack, number)
		b.symbols = append(s.Rules.Draw(b.symbols, way, rng), '\n')
	}
}

func (s Sample) place(i int64) (pack uint32, number uint16) {
	return s.FirstPack + uint32(i/int64(s.PackSize)), uint16(int64(s.FirstTicket) + i%int64(s.PackSize))
}

// outcomes shares the tickets of each prize among its ways, the most frequent first.
func (s Sample) outcomes() ([]outcome, error) {
	losers := s.Tickets
	for _, t := range s.Tiers {
		if t.Count > losers {
			return nil, fmt.Errorf("the prize table has more prizes than the %d tickets", s.Tickets)
		}
		losers -= t.Count
	}
	var out []outcome
	for _, t := range append([]manifest.Tier{{Count: losers}}, s.Tiers...) {
		ways, err := s.ways(t)
		if err != nil {
			return nil, err
		}
		out = append(out, ways...)
	}
	slices.SortStableFunc(out, func(a, b outcome) int { return cmp.Compare(b.left, a.left) })
	return out, nil
}

// ways apportions a tier's tickets by the largest remainders.
func (s Sample) ways(t manifest.Tier) ([]outcome, error) {
	if s.Rules == nil {
		return []outcome{{t.Amount, 0, t.Count}}, nil
	}
	var shares uint64
	var out []outcome
	all := s.Rules.Ways()
	for i, w := range all {
		if w.Prize == t.Amount && w.Share > 0 {
			var carry uint64
			if shares, carry = bits.Add64(shares, w.Share, 0); carry != 0 || shares > 1<<62 {
				return nil, fmt.Errorf("prize of %d minor units: the shares of its ways are too large", t.Amount)
			}
			out = append(out, outcome{t.Amount, i, 0})
		}
	}
	if shares == 0 {
		return nil, fmt.Errorf("prize of %d minor units: no way to win it has a share: add one to the rules' settings", t.Amount)
	}
	rest := make([]uint64, len(out))
	given := int64(0)
	for i := range out {
		hi, lo := bits.Mul64(uint64(t.Count), all[out[i].way].Share)
		q, r := bits.Div64(hi, lo, shares) // hi < shares: Count < 2^31 and Share <= shares
		out[i].left, rest[i] = int64(q), r
		given += int64(q)
	}
	order := make([]int, len(out))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rest[b], rest[a]) })
	for _, i := range order[:t.Count-given] {
		out[i].left++
	}
	return out, nil
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
