package ledger

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash"
	"io"

	"grattoir/sync/wire"
	"grattoir/validate"
)

// An export is a journal as a text that any tool can check. EXPORT.md beside this file
// is its contract; what is written here is read there.

// ExportFormat is the version of the export's text.
const ExportFormat = 1

// exportLine is a line of an export that is no entry: exactly one of them.
type exportLine struct {
	Journal *exportHeader `json:"journal,omitempty"` // the first line
	Slip    *exportSlip   `json:"slip,omitempty"`    // after its claim's line
	Ack     *exportAck    `json:"ack,omitempty"`
	Head    *exportHead   `json:"head,omitempty"`
	End     *exportEnd    `json:"end,omitempty"` // the last line
}

type exportHeader struct {
	Format   int         `json:"format"`
	Terminal string      `json:"terminal"`
	Epoch    int64       `json:"epoch"`   // the journal epoch that the ledger is in
	Whole    bool        `json:"whole"`   // the whole journal, not a part of it
	Entries  int64       `json:"entries"` // in this export
	From     exportPlace `json:"from"`    // the first of them, 0-0 without any
	To       exportPlace `json:"to"`
}

type exportPlace struct {
	Epoch int64 `json:"epoch"`
	Seq   int64 `json:"seq"`
}

type exportSlip struct {
	Epoch int64           `json:"epoch"`
	Seq   int64           `json:"seq"`
	Facts json.RawMessage `json:"facts"` // validate.SlipFacts as they are kept
}

type exportAck struct {
	Note string `json:"note"` // whole, as central signed it
}

type exportHead struct {
	Epoch     int64      `json:"epoch"`
	Seq       int64      `json:"seq"`
	Hash      string     `json:"hash"`
	Why       HeadReason `json:"why"`
	Text      string     `json:"text"`      // what is signed, wire.HeadText
	Signature string     `json:"signature"` // base64 of ECDSA over SHA-256, ASN.1
}

type exportEnd struct {
	Lines  int64  `json:"lines"`  // before this one
	SHA256 string `json:"sha256"` // of everything before this line
}

// Range is a part of a journal, both ends in it. A zero end is the journal's own.
type Range struct{ From, To validate.EntryNumber }

func (r Range) whole() bool { return r.From == (validate.EntryNumber{}) && r.To == r.From }

func before(a, b validate.EntryNumber) bool {
	return a.Epoch < b.Epoch || a.Epoch == b.Epoch && a.Seq < b.Seq
}

func (r Range) has(n validate.EntryNumber) bool {
	return !before(n, r.From) && (r.To == (validate.EntryNumber{}) || !before(r.To, n))
}

// Export writes the journal, or a part of it, with the signatures over what is in it. An
// entry that is gone is ErrDamaged; nothing else is checked, Prove does that.
func (l *Ledger) Export(ctx context.Context, w io.Writer, r Range) error {
	return export(ctx, l.read, len(migrations), w, r)
}

// Export is Ledger.Export.
func (i *Inspection) Export(ctx context.Context, w io.Writer, r Range) error {
	return export(ctx, i.look.read, i.version, w, r)
}

func export(ctx context.Context, q querier, version int, w io.Writer, r Range) error {
	x := exporter{ctx: ctx, q: q, version: version, r: r, out: bufio.NewWriter(w), sum: sha256.New()}
	if err := x.write(); err != nil {
		return fmt.Errorf("export the journal: %w", err)
	}
	return nil
}

type exporter struct {
	ctx     context.Context
	q       querier
	version int
	r       Range
	out     *bufio.Writer
	sum     hash.Hash
	lines   int64
}

// span is the part of one epoch that is exported.
type span struct{ epoch, from, to int64 }

func (x *exporter) write() error {
	h := exportHeader{Format: ExportFormat, Whole: x.r.whole()}
	if err := x.q.QueryRowContext(x.ctx, "SELECT terminal, epoch FROM meta").Scan(&h.Terminal, &h.Epoch); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	// The signatures first: those over entries appended meanwhile would be past the end.
	spans, kept, err := x.plan(&h)
	if err != nil {
		return err
	}
	if err := x.line(exportLine{Journal: &h}); err != nil {
		return err
	}
	for _, s := range spans {
		if err := x.entries(s); err != nil {
			return err
		}
	}
	for _, m := range kept {
		if err := x.signatures(h.Terminal, m); err != nil {
			return err
		}
	}
	text, err := encodeJSON(exportLine{End: &exportEnd{Lines: x.lines, SHA256: fmt.Sprintf("%x", x.sum.Sum(nil))}})
	if err != nil {
		return err
	}
	if _, err := x.out.Write(append(text, '\n')); err != nil {
		return err
	}
	return x.out.Flush()
}

// plan reads what there is to export: one span for each epoch that has entries in the
// range, and the signatures of each.
func (x *exporter) plan(h *exportHeader) (spans []span, kept []marks, err error) {
	list, err := epochs(x.ctx, x.q, h.Epoch)
	if err != nil {
		return nil, nil, err
	}
	for _, epoch := range list {
		m, err := readMarks(x.ctx, x.q, x.version, epoch)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		kept = append(kept, m)
		last, err := newest(x.ctx, x.q, epoch)
		if err != nil {
			return nil, nil, err
		}
		s := span{epoch, 1, last}
		if epoch == x.r.From.Epoch {
			s.from = max(s.from, x.r.From.Seq)
		}
		if epoch == x.r.To.Epoch {
			s.to = min(s.to, x.r.To.Seq)
		}
		if epoch < x.r.From.Epoch || x.r.To.Epoch > 0 && epoch > x.r.To.Epoch || s.from > s.to {
			continue
		}
		if len(spans) == 0 {
			h.From = exportPlace{epoch, s.from}
		}
		h.To = exportPlace{epoch, s.to}
		h.Entries += s.to - s.from + 1
		spans = append(spans, s)
	}
	if h.Entries == 0 && !x.r.whole() {
		return nil, nil, fmt.Errorf("%w: the journal has none from %v to %v", ErrNotFound, x.r.From, x.r.To)
	}
	return spans, kept, nil
}

func (x *exporter) line(l exportLine) error {
	text, err := encodeJSON(l)
	if err != nil {
		return err
	}
	return x.put(text)
}

func (x *exporter) put(text []byte) error {
	x.lines++
	text = append(text, '\n')
	_, _ = x.sum.Write(text) // a hash never fails
	_, err := x.out.Write(text)
	return err
}

// entries writes a span: each entry's line, and after a claim's the facts of its slip.
func (x *exporter) entries(s span) error {
	for from := s.from; from <= s.to; {
		list, err := page(x.ctx, x.q, s.epoch, from-1, s.to)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			return fmt.Errorf("%w: entry %d-%d is gone", ErrDamaged, s.epoch, from)
		}
		slips, err := x.slips(s.epoch, from, list[len(list)-1].seq)
		if err != nil {
			return err
		}
		for _, r := range list {
			if r.seq != from {
				return fmt.Errorf("%w: entry %d-%d is gone", ErrDamaged, s.epoch, from)
			}
			from++
			if err := x.put(bytes.ReplaceAll(r.line, []byte("\n"), []byte("\\n"))); err != nil { // no entry has one that was not damaged
				return err
			}
			if facts, ok := slips[r.seq]; ok {
				if !json.Valid(facts) {
					facts = []byte("null")
				}
				if err := x.line(exportLine{Slip: &exportSlip{s.epoch, r.seq, facts}}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (x *exporter) slips(epoch, from, to int64) (map[int64][]byte, error) {
	rows, err := x.q.QueryContext(x.ctx, "SELECT seq, slip FROM prints WHERE epoch = ? AND seq BETWEEN ? AND ?", epoch, from, to)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	defer rows.Close()
	list := map[int64][]byte{}
	for rows.Next() {
		var seq int64
		var facts []byte
		if err := rows.Scan(&seq, &facts); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		list[seq] = facts
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return list, nil
}

// signatures writes those over an entry that is in the export.
func (x *exporter) signatures(terminal string, m marks) error {
	for _, a := range m.acks {
		if a.Position.Seq == 0 || !x.r.has(validate.EntryNumber{Epoch: m.head.Epoch, Seq: a.Position.Seq}) {
			continue
		}
		if err := x.line(exportLine{Ack: &exportAck{a.Note}}); err != nil {
			return err
		}
	}
	for _, h := range m.heads {
		if !x.r.has(validate.EntryNumber{Epoch: h.Epoch, Seq: h.Seq}) {
			continue
		}
		err := x.line(exportLine{Head: &exportHead{Epoch: h.Epoch, Seq: h.Seq, Hash: h.Hash.String(), Why: h.Why, Text: h.text(terminal),
			Signature: base64.StdEncoding.EncodeToString(h.Signature)}})
		if err != nil {
			return err
		}
	}
	return nil
}

// text is what the device signs.
func (h SignedHead) text(terminal string) string {
	return wire.HeadText(terminal, wire.Position{Epoch: h.Epoch, Seq: h.Seq, Hash: h.Hash.String()})
}
