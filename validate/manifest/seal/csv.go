package seal

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"runtime"
	"strings"
	"sync"

	"grattoir/validate/money"
	"grattoir/validate/ticket"
)

// CSVHeader is the first line of tickets.csv.
const CSVHeader = "code,prize_minor"

const (
	maxSecret  = 32      // digits
	maxFaults  = 20      // faults named before reading stops
	maxTickets = 1 << 31 // tickets in a block
	maxPrizes  = 1 << 16 // different amounts
	batchLines = 1 << 14 // lines a worker parses at a time
	maxLine    = 64 + 24 // longest code, comma and amount
	readBuffer = 1 << 20
)

// record is a ticket as read, packed so that a block of 9 000 000 fits the memory of
// a small server: 24 bytes each.
type record struct {
	secret [16]byte // the digits as one big-endian number
	pack   uint32
	number uint16
	prize  uint16 // index into ticketList.prizes
}

// ticketList holds the records in the order of their lines.
type ticketList struct {
	batches [][]record // all of batchLines records but the last
	count   int64
	prizes  []money.Amount // prizes[0] is 0
	game    string
}

func (l *ticketList) record(n int64) *record { return &l.batches[n/batchLines][n%batchLines] }

// line is the line of record n: the first line is the header.
func line(n int64) int64 { return n + 2 }

// lineFile is a kind of file of lines: its first line, its longest one, and how many
// of them make a batch.
type lineFile struct {
	header  string
	longest int
	batch   int
}

// batch is a run of whole lines on its way through a parser.
type batch struct {
	text  []byte
	first int64 // record number of its first line
	lines int
	done  chan parsed  // of tickets.csv
	drawn chan []drawn // of symbols.csv
}

type parsed struct {
	records []record
	amounts []money.Amount // parallel to records
	game    string
	faults  []error
}

// readTickets parses tickets.csv on all cores. It names up to 20 faults, each with
// its line and column, and never repeats a code.
func readTickets(ctx context.Context, in io.Reader, layout ticket.Layout, progress func(string, int64, int64)) (*ticketList, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	queue := make(chan *batch, runtime.GOMAXPROCS(0)) // in the order of the lines
	work := make(chan *batch)
	var workers sync.WaitGroup
	defer workers.Wait()
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for b := range work {
				b.done <- b.parse(layout)
			}
		})
	}
	var readErr error
	workers.Go(func() {
		defer close(queue)
		defer close(work)
		readErr = lineFile{CSVHeader, maxLine, batchLines}.split(ctx, in, queue, work)
	})
	l := &ticketList{prizes: []money.Amount{0}}
	index := map[money.Amount]uint16{0: 0}
	var faults []error
	for b := range queue {
		p := <-b.done
		if faults = append(faults, p.faults...); len(faults) > 0 {
			if len(faults) >= maxFaults {
				break
			}
			continue
		}
		if err := l.add(p, index); err != nil {
			faults = append(faults, err)
			break
		}
		progress("read", l.count, 0)
	}
	cancel()
	for b := range queue { // let the reader and the workers finish
		<-b.done
	}
	if len(faults) > 0 {
		return nil, joinFaults(faults)
	}
	if readErr != nil {
		return nil, fmt.Errorf("tickets.csv: %w", readErr)
	}
	return l, nil
}

func joinFaults(faults []error) error {
	more := ""
	if len(faults) >= maxFaults {
		faults, more = faults[:maxFaults], "\n  (reading stopped; there may be more)"
	}
	var b strings.Builder
	for _, f := range faults {
		fmt.Fprintf(&b, "\n  %v", f)
	}
	return fmt.Errorf("tickets.csv has faults, nothing was sealed:%s%s", b.String(), more)
}

func (l *ticketList) add(p parsed, index map[money.Amount]uint16) error {
	if l.game == "" {
		l.game = p.game
	}
	for i := range p.records {
		n, ok := index[p.amounts[i]]
		if !ok {
			if len(l.prizes) == maxPrizes {
				return fmt.Errorf("line %d: more than %d different prizes", line(l.count+int64(i)), maxPrizes)
			}
			n = uint16(len(l.prizes))
			l.prizes = append(l.prizes, p.amounts[i])
			index[p.amounts[i]] = n
		}
		p.records[i].prize = n
	}
	if p.game != l.game {
		return fmt.Errorf("lines from %d: game code %s, the tickets before have %s", line(l.count), p.game, l.game)
	}
	l.batches = append(l.batches, p.records)
	if l.count += int64(len(p.records)); l.count > maxTickets {
		return fmt.Errorf("more than %d tickets in one block", int64(maxTickets))
	}
	return nil
}

// split cuts the input into batches of whole lines. The queue has them in order, and
// must be read to its end.
func (f lineFile) split(ctx context.Context, in io.Reader, queue, work chan<- *batch) error {
	r := bufio.NewReaderSize(in, readBuffer)
	first, err := f.readLine(r)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("line 1: %w", err)
	}
	if string(first) != f.header {
		return fmt.Errorf("line 1: want the header %q, found %d other bytes", f.header, len(first))
	}
	for n := int64(0); ; {
		b := &batch{first: n, done: make(chan parsed, 1), drawn: make(chan []drawn, 1)}
		end := false
		for b.lines < f.batch {
			text, err := f.readLine(r)
			if errors.Is(err, io.EOF) && len(text) == 0 {
				end = true
				break
			}
			if err != nil && !errors.Is(err, io.EOF) {
				return fmt.Errorf("line %d: %w", line(n+int64(b.lines)), err)
			}
			b.text = append(append(b.text, text...), '\n')
			b.lines++
		}
		if b.lines > 0 {
			select {
			case work <- b:
			case <-ctx.Done():
				return ctx.Err()
			}
			queue <- b // never blocks for ever: the consumer drains it to its end
			n += int64(b.lines)
		}
		if end {
			return nil
		}
	}
}

// errLineTooLong names a line that can be no ticket, before it fills the memory.
var errLineTooLong = errors.New("line too long for a ticket")

// readLine returns the next line without its end (LF or CR LF), valid until the next call.
func (f lineFile) readLine(r *bufio.Reader) ([]byte, error) {
	text, err := r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return nil, errLineTooLong
	}
	text = bytes.TrimSuffix(text, []byte("\n"))
	text = bytes.TrimSuffix(text, []byte("\r"))
	if len(text) > f.longest {
		return nil, errLineTooLong
	}
	return text, err
}

func (b *batch) parse(layout ticket.Layout) parsed {
	p := parsed{records: make([]record, 0, b.lines), amounts: make([]money.Amount, 0, b.lines)}
	rest := b.text
	for n := range b.lines {
		text, tail, _ := bytes.Cut(rest, []byte("\n"))
		rest = tail
		r, amount, game, err := parseLine(text, layout)
		if err == nil && p.game != "" && game != p.game {
			err = fmt.Errorf("column 1: game code %s, the tickets before have %s", game, p.game)
		}
		if err != nil {
			if len(p.faults) < maxFaults {
				p.faults = append(p.faults, fmt.Errorf("line %d, %w", line(b.first+int64(n)), err))
			}
			continue
		}
		p.game = game
		p.records = append(p.records, r)
		p.amounts = append(p.amounts, amount)
	}
	return p
}

func parseLine(text []byte, layout ticket.Layout) (record, money.Amount, string, error) {
	comma := bytes.IndexByte(text, ',')
	if comma < 0 {
		return record{}, 0, "", fmt.Errorf("column %d: no comma; want %s", len(text)+1, CSVHeader)
	}
	c, err := ticket.ParseWhole(string(text[:comma]), layout)
	if err != nil {
		return record{}, 0, "", fmt.Errorf("column 1: %w (this block has layout %s)", err, layout.Name)
	}
	amount, err := parseMinor(text[comma+1:])
	if err != nil {
		return record{}, 0, "", fmt.Errorf("column %d: %w", comma+2, err)
	}
	return record{secret: packSecret(c.Secret()), pack: c.Pack, number: c.Number}, amount, c.Game, nil
}

func parseMinor(text []byte) (money.Amount, error) {
	if len(text) == 0 || len(text) > 15 || (text[0] == '0' && len(text) > 1) {
		return 0, fmt.Errorf("prize %.20q: want whole minor units, 0 for no prize", text)
	}
	var n int64
	for _, d := range text {
		if d < '0' || d > '9' {
			return 0, fmt.Errorf("prize %.20q: want whole minor units, 0 for no prize", text)
		}
		n = n*10 + int64(d-'0')
	}
	return money.Amount(n), nil
}

// packSecret reads up to 32 digits as one number; the layout fixes their width.
func packSecret(digits string) (s [16]byte) {
	var hi, lo uint64
	for i := range len(digits) {
		h, l := bits.Mul64(lo, 10)
		var carry uint64
		lo, carry = bits.Add64(l, uint64(digits[i]-'0'), 0)
		hi = hi*10 + h + carry
	}
	for i := range 8 {
		s[i], s[8+i] = byte(hi>>(56-8*i)), byte(lo>>(56-8*i))
	}
	return s
}

// unpackSecret writes the number back as digits that fill buf.
func unpackSecret(s [16]byte, buf []byte) []byte {
	var hi, lo uint64
	for i := range 8 {
		hi, lo = hi<<8|uint64(s[i]), lo<<8|uint64(s[8+i])
	}
	for i := len(buf) - 1; i >= 0; i-- {
		q, r := hi/10, hi%10
		var digit uint64
		lo, digit = bits.Div64(r, lo, 10)
		hi = q
		buf[i] = byte('0' + digit)
	}
	return buf
}
