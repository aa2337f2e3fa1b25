package ledger

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"grattoir/sync/wire"
	"grattoir/validate"
)

// An archive is one year of the journal with what proves it, as a tar file of text files:
// README.txt says how to verify it with common tools, archive.json what it is, heads.jsonl
// and acks.jsonl hold the signatures, journal-E.jsonl the exact lines of each journal
// epoch, closings.jsonl the closings among them, SHA256SUMS the hashes of all. The same
// ledger gives the same bytes, whenever it is made.

// ArchiveFormat is the version of an archive's layout.
const ArchiveFormat = 1

// archiveHead is archive.json.
type archiveHead struct {
	Format   int                  `json:"format"`
	Terminal string               `json:"terminal"`
	Year     int                  `json:"year"`
	From     validate.EntryNumber `json:"from"` // the closing of the year before, or the first entry
	To       validate.EntryNumber `json:"to"`   // the closing of the year
	End      validate.EntryNumber `json:"end"`  // last line: To, or the entry above it that central countersigned
	Prev     string               `json:"prev"` // hash of the entry before From, zeros for none
	Entries  int64                `json:"entries"`
	Closings int64                `json:"closings"`
	Epochs   []int64              `json:"epochs"`
}

// archivedHead is a line of heads.jsonl.
type archivedHead struct {
	Epoch     int64  `json:"epoch"`
	Seq       int64  `json:"seq"`
	Hash      string `json:"hash"`
	Why       string `json:"why"`
	Text      string `json:"text"`      // what was signed
	Signature string `json:"signature"` // base64, ECDSA P-256 over SHA-256, ASN.1
}

// archivedAck is a line of acks.jsonl.
type archivedAck struct {
	Epoch int64  `json:"epoch"`
	Seq   int64  `json:"seq"`
	Note  string `json:"note"` // central's signed note, whole
}

// ErrNoClosing means that the ledger has no closing of the year: Z it first.
var ErrNoClosing = errors.New("the year was not closed")

// Archive writes the archive of a year: every line between two closings of the year, or
// from the first entry. The year is what its closings are called; where several are
// called the same, all that they close is in it. The error is ErrNoClosing when none is.
func (l *Ledger) Archive(ctx context.Context, year int, w io.Writer) (ArchiveBody, error) {
	h, err := l.archiveHead(ctx, year)
	if err != nil {
		return ArchiveBody{}, fmt.Errorf("archive of %d: %w", year, err)
	}
	whole := sha256.New()
	a := archiver{l: l, head: h, tar: tar.NewWriter(io.MultiWriter(w, whole))}
	if err := a.write(ctx); err != nil {
		return ArchiveBody{}, fmt.Errorf("archive of %d: %w", year, err)
	}
	return ArchiveBody{Year: year, From: h.From, To: h.To, SHA256: hex.EncodeToString(whole.Sum(nil))}, nil
}

// AppendArchive records that an archive was made: who archives leaves a trace.
func (l *Ledger) AppendArchive(ctx context.Context, a ArchiveBody) error {
	if err := checkName("operator", a.Operator); err != nil {
		return fmt.Errorf("archive of %d: %w", a.Year, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.write(ctx, func(ctx context.Context, w *writing) error {
		_, _, err := w.append(ctx, KindArchive, a)
		return err
	})
}

// archiveHead finds what belongs to a year.
func (l *Ledger) archiveHead(ctx context.Context, year int) (archiveHead, error) {
	h := archiveHead{Format: ArchiveFormat, Terminal: l.opt.Terminal, Year: year, Prev: Hash{}.String()}
	var first, last int64
	err := l.read.QueryRowContext(ctx, "SELECT coalesce(min(number), 0), coalesce(max(number), 0) FROM closings WHERE kind = 'year' AND period = ?", fmt.Sprintf("%04d", year)).
		Scan(&first, &last)
	if err != nil {
		return h, err
	}
	if first == 0 {
		return h, fmt.Errorf("%w: no closing of a year is called %04d", ErrNoClosing, year)
	}
	place := func(number int64) (n validate.EntryNumber, err error) {
		err = l.read.QueryRowContext(ctx, "SELECT epoch, seq FROM closings WHERE kind = 'year' AND number = ?", number).Scan(&n.Epoch, &n.Seq)
		return n, err
	}
	if h.To, err = place(last); err != nil {
		return h, err
	}
	if first == 1 {
		h.From, _, err = firstEntry(ctx, l.read)
	} else {
		h.From, err = place(first - 1)
	}
	if err != nil {
		return h, err
	}
	e, err := readEntry(ctx, l.read, h.From)
	if err != nil {
		return h, err
	}
	h.Prev, h.End = e.Prev, h.To
	// Central signs the end of an upload, which may lie a few entries above the closing.
	err = l.read.QueryRowContext(ctx, "SELECT coalesce(min(seq), ?2) FROM countersigned WHERE epoch = ?1 AND seq >= ?2 AND seq <= ?2 + ?3", h.To.Epoch, h.To.Seq, wire.MaxEntries).
		Scan(&h.End.Seq)
	if err != nil {
		return h, err
	}
	return h, l.countArchive(ctx, &h)
}

func (l *Ledger) countArchive(ctx context.Context, h *archiveHead) error {
	for epoch := h.From.Epoch; epoch <= h.End.Epoch; epoch++ {
		from, upTo := h.span(epoch)
		var n, closings int64
		err := l.read.QueryRowContext(ctx, "SELECT count(*), coalesce(sum(kind = 'closing'), 0) FROM entries WHERE epoch = ? AND seq BETWEEN ? AND ?", epoch, from, upTo).Scan(&n, &closings)
		if err != nil {
			return err
		}
		if n > 0 {
			h.Epochs = append(h.Epochs, epoch)
		}
		h.Entries += n
		h.Closings += closings
	}
	return nil
}

// span is the first and the last number of an epoch that belong to the archive.
func (h archiveHead) span(epoch int64) (from, upTo int64) {
	from, upTo = 1, 1<<62
	if epoch == h.From.Epoch {
		from = h.From.Seq
	}
	if epoch == h.End.Epoch {
		upTo = h.End.Seq
	}
	return from, upTo
}

// archiver writes the files of an archive, one after another.
type archiver struct {
	l    *Ledger
	head archiveHead
	tar  *tar.Writer
	sums strings.Builder // of SHA256SUMS
}

func (a *archiver) write(ctx context.Context) error {
	head, err := encodeJSON(a.head)
	if err != nil {
		return err
	}
	heads, err := a.heads(ctx)
	if err != nil {
		return err
	}
	acks, err := a.acks(ctx)
	if err != nil {
		return err
	}
	for _, f := range []struct{ name, text string }{{"README.txt", a.head.readme()}, {"archive.json", string(head) + "\n"}, {"heads.jsonl", heads}, {"acks.jsonl", acks}} {
		if err := a.file(f.name, int64(len(f.text)), func(w io.Writer) error { _, err := io.WriteString(w, f.text); return err }); err != nil {
			return err
		}
	}
	for _, epoch := range a.head.Epochs {
		if err := a.journal(ctx, journalName(epoch), []int64{epoch}, ""); err != nil {
			return err
		}
	}
	if err := a.journal(ctx, "closings.jsonl", a.head.Epochs, KindClosing); err != nil {
		return err
	}
	sums := a.sums.String()
	if err := a.file("SHA256SUMS", int64(len(sums)), func(w io.Writer) error { _, err := io.WriteString(w, sums); return err }); err != nil {
		return err
	}
	return a.tar.Close()
}

func journalName(epoch int64) string { return fmt.Sprintf("journal-%d.jsonl", epoch) }

// file writes one file of a known size, and its hash into SHA256SUMS.
func (a *archiver) file(name string, size int64, write func(io.Writer) error) error {
	// The oldest layout and no times of the machine: the same ledger gives the same bytes.
	err := a.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o444, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	sum := sha256.New()
	if err := write(io.MultiWriter(a.tar, sum)); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	fmt.Fprintf(&a.sums, "%x  %s\n", sum.Sum(nil), name)
	return nil
}

// journal writes the lines of epochs, all of them or those of one kind.
func (a *archiver) journal(ctx context.Context, name string, epochs []int64, kind Kind) error {
	var size int64
	for _, epoch := range epochs {
		from, upTo := a.head.span(epoch)
		var n int64
		err := a.l.read.QueryRowContext(ctx, "SELECT coalesce(sum(length(line) + 1), 0) FROM entries WHERE epoch = ? AND seq BETWEEN ? AND ? AND ? IN ('', kind)",
			epoch, from, upTo, kind).Scan(&n)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		size += n
	}
	return a.file(name, size, func(w io.Writer) error {
		for _, epoch := range epochs {
			from, upTo := a.head.span(epoch)
			err := walkTo(ctx, a.l.read, epoch, from, upTo, func(r row) error {
				if kind != "" && r.kind != kind {
					return nil
				}
				_, err := w.Write(append(r.line, '\n'))
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// heads are the signatures of the closings. Other heads are signed too, and replaced by
// later ones: they would make the bytes depend on the day.
func (a *archiver) heads(ctx context.Context) (string, error) {
	rows, err := a.l.read.QueryContext(ctx, `SELECT epoch, seq, hash, signature, why FROM heads
		WHERE why = ? AND (epoch, seq) >= (?, ?) AND (epoch, seq) <= (?, ?) ORDER BY epoch, seq`, HeadClosing, a.head.From.Epoch, a.head.From.Seq, a.head.End.Epoch, a.head.End.Seq)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	var b strings.Builder
	for rows.Next() {
		var h archivedHead
		var hash, signature []byte
		if err := rows.Scan(&h.Epoch, &h.Seq, &hash, &signature, &h.Why); err != nil {
			return "", err
		}
		h.Hash, h.Signature = hex.EncodeToString(hash), base64.StdEncoding.EncodeToString(signature)
		h.Text = wire.HeadText(a.head.Terminal, wire.Position{Epoch: h.Epoch, Seq: h.Seq, Hash: h.Hash})
		line, err := encodeJSON(h)
		if err != nil {
			return "", err
		}
		b.Write(append(line, '\n'))
	}
	return b.String(), rows.Err()
}

// acks are central's countersignatures of years.
func (a *archiver) acks(ctx context.Context) (string, error) {
	rows, err := a.l.read.QueryContext(ctx, "SELECT epoch, seq, note FROM countersigned WHERE (epoch, seq) >= (?, ?) AND (epoch, seq) <= (?, ?) ORDER BY epoch, seq",
		a.head.From.Epoch, a.head.From.Seq, a.head.End.Epoch, a.head.End.Seq)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	var b strings.Builder
	for rows.Next() {
		var k archivedAck
		if err := rows.Scan(&k.Epoch, &k.Seq, &k.Note); err != nil {
			return "", err
		}
		line, err := encodeJSON(k)
		if err != nil {
			return "", err
		}
		b.Write(append(line, '\n'))
	}
	return b.String(), rows.Err()
}

// readme says how to verify the archive without this program. Its indented lines are one
// script, which a test runs.
func (h archiveHead) readme() string {
	var b strings.Builder
	fmt.Fprintf(&b, `Archive of the journal of terminal %s, year %04d
Entries %v to %v, %d lines; the year's closing is entry %v.

Every line of journal-*.jsonl is one entry, in JSON, as it was written: payments (claim),
shifts, reversals, reprints, closings. Lines are never changed: each carries the SHA-256 of
the line before it (without its line feed) as "prev". Amounts are in minor units (cents).

`, h.Terminal, h.Year, h.From, h.End, h.Entries, h.To)
	b.WriteString(`To verify it you need tar, sha256sum, jq and openssl, and two keys that must not come from
this file: device.pem, the terminal's public key, and central.key, central's public key (one
line: name+hash+base64), both from central operations. Unpack it into an empty folder, put
the keys there, and run, in bash:

1. The files are as they were made:

    sha256sum --check --quiet SHA256SUMS

2. Each line carries the hash of the line before. This starts two programs a line, some
   minutes for a year:

`)
	for i, epoch := range h.Epochs {
		prev := "$(jq -r .prev archive.json)"
		if i > 0 {
			prev = strings.Repeat("0", 2*sha256.Size) // a journal epoch begins a chain of its own
		}
		fmt.Fprintf(&b, "    prev=%s\n    while IFS= read -r line; do [ \"$(jq -r .prev <<<\"$line\")\" = $prev ] || exit 1; prev=$(printf %%s \"$line\" | sha256sum | cut -c1-64); done <%s\n",
			prev, journalName(epoch))
	}
	fmt.Fprintf(&b, `
3. The device signed the year's closing, and so every line before it:

    jq -j 'select(.epoch == %[1]d and .seq == %[2]d) | .text' heads.jsonl >head.txt
    jq -r 'select(.epoch == %[1]d and .seq == %[2]d) | .signature' heads.jsonl | base64 -d >head.sig
    openssl dgst -sha256 -verify device.pem -signature head.sig head.txt
    [ "$(grep -F '"epoch":%[1]d,"seq":%[2]d,"boot":' %[3]s | tr -d '\n' | sha256sum | cut -c1-64)" = "$(sed -n 's/^hash //p' head.txt)" ]

`, h.To.Epoch, h.To.Seq, journalName(h.To.Epoch))
	b.WriteString(`4. Central countersigned it (acks.jsonl is empty when the archive was made before central
   had answered):

    jq -sj 'last | .note // empty' acks.jsonl >ack.note
    [ ! -s ack.note ] || sed '/^$/,$d' ack.note >ack.txt
    [ ! -s ack.note ] || tail -n 1 ack.note | sed 's/^.* //' | base64 -d | tail -c 64 >ack.sig
    printf '\060\052\060\005\006\003\053\145\160\003\041\000' >central.der
    cut -d+ -f3- central.key | base64 -d | tail -c 32 >>central.der
    [ ! -s ack.note ] || openssl pkeyutl -verify -pubin -keyform DER -inkey central.der -rawin -in ack.txt -sigfile ack.sig

5. What was paid is what the closing says, for example in all:

`)
	fmt.Fprintf(&b, "    jq 'select(.epoch == %d and .seq == %d) | .body.totals' closings.jsonl\n", h.To.Epoch, h.To.Seq)
	for _, epoch := range h.Epochs {
		fmt.Fprintf(&b, "    jq -s '[.[] | select(.kind == \"claim\" and (.epoch < %d or .seq < %d)) | .body.amount_minor] | add' %s\n", h.To.Epoch, h.To.Seq, journalName(epoch))
	}
	b.WriteString(`
"terminalctl archive verify FILE" does all of this and adds up every closing again.
`)
	return b.String()
}
