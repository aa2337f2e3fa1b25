package ledger

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"

	"grattoir/validate"
	"grattoir/validate/money"
)

// ErrExport means a text that is no export of a journal, or one that was changed or cut.
var ErrExport = errors.New("not a journal's whole export")

// maxExportLine bounds a line of an export: an entry, a slip, or a note with its signature.
const maxExportLine = 4 * maxLine

// maxEpoch bounds the journal epoch in a header, which no signature covers.
const maxEpoch = 1 << 16

// sink takes what is read of an export, in its order.
type sink interface {
	begin(h exportHeader) error
	// entry takes an entry whose place in the chain was checked; slip is nil but for claims.
	entry(e Entry, line []byte, own Hash, slip []byte) error
	// signed takes an epoch's signatures, verified where there were keys.
	signed(m marks) error
}

// VerifyExport reads an export and verifies it as Prove does a ledger, without one. A part
// of a journal is verified as a part: its first entry's prev is believed, and its closings
// are not added up.
func VerifyExport(ctx context.Context, r io.Reader, k Keys) (Proof, error) {
	return readExport(ctx, r, k, nil)
}

func readExport(ctx context.Context, r io.Reader, k Keys, to sink) (Proof, error) {
	x := exportReader{ctx: ctx, closings: newCloseChecker(nil, len(migrations)), in: bufio.NewReaderSize(r, maxExportLine), sum: sha256.New(), keys: k, to: to, hashes: map[validate.EntryNumber]Hash{}}
	if err := x.read(); err != nil {
		return x.proof, fmt.Errorf("line %d: %w", x.lines+1, err)
	}
	return x.proof, nil
}

// exportReader reads an export.
type exportReader struct {
	ctx   context.Context
	in    *bufio.Reader
	sum   hash.Hash
	lines int64
	keys  Keys
	to    sink // nil for none

	closings *closeChecker
	header   exportHeader
	proof    Proof
	last     validate.EntryNumber // entry read last
	prev     Hash
	hashes   map[validate.EntryNumber]Hash // what signatures may be over
	marks    []marks                       // by epoch
}

func (x *exportReader) read() error {
	line, err := x.next()
	if err != nil {
		return err
	}
	l, err := parseExportLine(line)
	if err != nil {
		return err
	}
	if err := x.begin(l); err != nil {
		return err
	}
	if err := x.entries(); err != nil {
		return err
	}
	for l = (exportLine{}); l.End == nil; {
		sum, lines := x.sum.Sum(nil), x.lines
		if line, err = x.next(); err != nil {
			return err
		}
		if l, err = parseExportLine(line); err != nil {
			return err
		}
		switch {
		case l.Ack != nil:
			err = x.ack(l.Ack.Note)
		case l.Head != nil:
			err = x.head(*l.Head)
		case l.End == nil:
			err = fmt.Errorf("%w: a line that does not belong here", ErrExport)
		case l.End.Lines != lines || l.End.SHA256 != hex.EncodeToString(sum):
			err = fmt.Errorf("%w: %d lines hash to %x, its end says %d and %.64s", ErrExport, lines, sum, l.End.Lines, l.End.SHA256)
		}
		if err != nil {
			return err
		}
	}
	if _, err := x.in.Peek(1); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: it goes on after its end", ErrExport)
	}
	return x.end()
}

// next reads a line and gives it without its line feed. It is good until the one after.
func (x *exportReader) next() ([]byte, error) {
	line, err := x.in.ReadSlice('\n')
	switch {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%w: it ends without its last line: it was cut", ErrExport)
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, fmt.Errorf("%w: a line of more than %d bytes", ErrExport, maxExportLine)
	case err != nil:
		return nil, err
	}
	x.lines++
	_, _ = x.sum.Write(line)
	return line[:len(line)-1], nil
}

// parseExportLine accepts only what Export writes.
func parseExportLine(line []byte) (exportLine, error) {
	var l exportLine
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&l); err != nil {
		return l, fmt.Errorf("%w: %w", ErrExport, err)
	}
	if again, err := encodeJSON(l); err != nil || !bytes.Equal(again, line) {
		return l, fmt.Errorf("%w: not in the form this version writes", ErrExport)
	}
	n := 0
	for _, is := range []bool{l.Journal != nil, l.Slip != nil, l.Ack != nil, l.Head != nil, l.End != nil} {
		if is {
			n++
		}
	}
	if n != 1 {
		return l, fmt.Errorf("%w: a line of %d things", ErrExport, n)
	}
	return l, nil
}

func (x *exportReader) begin(l exportLine) error {
	if l.Journal == nil {
		return fmt.Errorf("%w: it does not begin with its header", ErrExport)
	}
	h := *l.Journal
	switch {
	case h.Format != ExportFormat:
		return fmt.Errorf("%w: format %d, this program knows %d", ErrExport, h.Format, ExportFormat)
	case h.Terminal == "" || len(h.Terminal) > 64 || h.Entries < 0 || h.Epoch < 1 || h.Epoch > maxEpoch || h.To.Epoch > h.Epoch:
		return fmt.Errorf("%w: its header cannot be", ErrExport)
	case h.Entries == 0 && (h.From != exportPlace{} || h.To != exportPlace{}):
		return fmt.Errorf("%w: no entries from %d-%d to %d-%d", ErrExport, h.From.Epoch, h.From.Seq, h.To.Epoch, h.To.Seq)
	}
	x.header = h
	x.proof.Head.Epoch, x.proof.Terminal = h.Epoch, h.Terminal
	if x.to == nil {
		return nil
	}
	return x.to.begin(h)
}

// entries reads as many as the header says.
func (x *exportReader) entries() error {
	for range x.header.Entries {
		if err := x.ctx.Err(); err != nil {
			return err
		}
		line, err := x.next()
		if err != nil {
			return err
		}
		line = bytes.Clone(line)
		e, err := ParseEntry(line)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrExport, err)
		}
		if err := x.follows(e); err != nil {
			return fmt.Errorf("%w: %w", ErrExport, err)
		}
		own := hashLine(line)
		x.last, x.prev = validate.EntryNumber{Epoch: e.Epoch, Seq: e.Seq}, own
		x.hashes[x.last] = own
		x.proof.Entries++
		if x.header.Whole { // a part does not show what its first closing sums up
			if err := x.closings.entry(x.ctx, e); err != nil {
				return fmt.Errorf("%w: entry %v: %w", ErrExport, x.last, err)
			}
			x.proof.Closings = x.closings.closings
		}
		x.epoch(e.Epoch).head = Head{e.Epoch, e.Seq, own}
		var slip []byte
		if e.IsClaim() {
			if slip, err = x.slip(e); err != nil {
				return err
			}
		}
		if x.to == nil {
			continue
		}
		if err := x.to.entry(e, line, own, slip); err != nil {
			return err
		}
	}
	if x.header.Entries > 0 && x.header.To != (exportPlace{x.last.Epoch, x.last.Seq}) {
		return fmt.Errorf("%w: it ends at entry %v, its header says %d-%d", ErrExport, x.last, x.header.To.Epoch, x.header.To.Seq)
	}
	return nil
}

// follows tells whether an entry is the next one of the journal. Each epoch is a chain of
// its own.
func (x *exportReader) follows(e Entry) error {
	number := validate.EntryNumber{Epoch: e.Epoch, Seq: e.Seq}
	first := x.last == validate.EntryNumber{}
	switch {
	case e.Terminal != x.header.Terminal:
		return fmt.Errorf("entry %v is of terminal %.64q", number, e.Terminal)
	case e.Epoch < 1 || e.Epoch > x.header.Epoch || e.Seq < 1:
		return fmt.Errorf("entry %v cannot be", number)
	case first && x.header.From != exportPlace{e.Epoch, e.Seq}:
		return fmt.Errorf("it begins at entry %v, its header says %d-%d", number, x.header.From.Epoch, x.header.From.Seq)
	case first && e.Seq > 1 && !x.header.Whole: // the part's first: what is before is not here
		return nil
	case e.Seq == 1 && (first || e.Epoch > x.last.Epoch):
		x.prev = Hash{}
	case e.Epoch != x.last.Epoch || e.Seq != x.last.Seq+1:
		return fmt.Errorf("entry %v follows %v: there is a gap", number, x.last)
	}
	if e.Prev != x.prev.String() {
		return fmt.Errorf("entry %v does not carry the hash of the entry before", number)
	}
	return nil
}

// slip counts a claim and reads the line after it.
func (x *exportReader) slip(e Entry) ([]byte, error) {
	body, err := e.Claim()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrExport, err)
	}
	if x.proof.Money, err = x.proof.Money.Add(money.Amount(body.AmountMinor)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrExport, err)
	}
	x.proof.Claims++
	line, err := x.next()
	if err != nil {
		return nil, err
	}
	l, err := parseExportLine(line)
	if err != nil {
		return nil, err
	}
	if l.Slip == nil || l.Slip.Epoch != e.Epoch || l.Slip.Seq != e.Seq {
		return nil, fmt.Errorf("%w: the slip of entry %v is not after it", ErrExport, x.last)
	}
	if err := slipFits(l.Slip.Facts, body); err != nil {
		return nil, fmt.Errorf("%w: entry %v: %w", ErrExport, x.last, err)
	}
	return l.Slip.Facts, nil
}

// epoch gives the marks of an epoch. Entries come first and in order, so these are too.
func (x *exportReader) epoch(epoch int64) *marks {
	at := slices.IndexFunc(x.marks, func(m marks) bool { return m.head.Epoch == epoch })
	if at < 0 {
		at = len(x.marks)
		x.marks = append(x.marks, marks{head: Head{Epoch: epoch}})
	}
	return &x.marks[at]
}

// ack takes a note of central's. What it signed must be in the export.
func (x *exportReader) ack(signed string) error {
	a, err := readNote(signed)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrExport, err)
	}
	own, ok := x.hashes[validate.EntryNumber{Epoch: a.Position.Epoch, Seq: a.Position.Seq}]
	if a.Terminal != x.header.Terminal || !ok || own.String() != a.Position.Hash {
		return fmt.Errorf("%w: central signed entry %d-%d of %.64q with another hash, or it is not here", ErrDamaged, a.Position.Epoch, a.Position.Seq, a.Terminal)
	}
	m := x.epoch(a.Position.Epoch)
	if a.Position.Seq < m.acked || len(m.heads) > 0 {
		return fmt.Errorf("%w: central's notes are out of order", ErrExport)
	}
	m.acked, m.noted = a.Position.Seq, true
	m.keep(a)
	return nil
}

// head takes a signature of the device.
func (x *exportReader) head(h exportHead) error {
	own, ok := x.hashes[validate.EntryNumber{Epoch: h.Epoch, Seq: h.Seq}]
	s := SignedHead{Head: Head{h.Epoch, h.Seq, own}, Why: h.Why}
	if !ok || own.String() != h.Hash || h.Text != s.text(x.header.Terminal) {
		return fmt.Errorf("%w: the device signed entry %d-%d with another hash, or it is not here", ErrDamaged, h.Epoch, h.Seq)
	}
	var err error
	if s.Signature, err = base64.StdEncoding.DecodeString(h.Signature); err != nil {
		return fmt.Errorf("%w: signature of head %d-%d: %w", ErrExport, h.Epoch, h.Seq, err)
	}
	m := x.epoch(h.Epoch)
	if n := len(m.heads); n > 0 && m.heads[n-1].Seq >= h.Seq {
		return fmt.Errorf("%w: signed heads out of order", ErrExport)
	}
	m.heads = append(m.heads, s)
	return nil
}

// end verifies the signatures and hands them on.
func (x *exportReader) end() error {
	if x.header.Whole {
		x.epoch(x.header.Epoch) // it may have no entries yet
	}
	for _, m := range x.marks {
		e, err := m.prove(x.header.Terminal, x.keys)
		if err != nil {
			return err
		}
		x.proof.Epochs = append(x.proof.Epochs, e)
		x.proof.Head = m.head
		if x.to == nil {
			continue
		}
		if err := x.to.signed(m); err != nil {
			return err
		}
	}
	return nil
}
