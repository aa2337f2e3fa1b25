package ledger

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"grattoir/sync/wire"
	"grattoir/validate"
)

// ErrArchive means a file that is no archive, or one whose parts do not fit each other.
var ErrArchive = errors.New("not a whole archive")

// Limits of what is read of an archive, far above what a year makes.
const (
	maxArchiveText  = 16 << 20 // bytes of each file that is no journal
	maxArchiveHeads = 100_000
	maxArchiveLines = 50_000_000
)

// ArchiveProof is what VerifyArchive found.
type ArchiveProof struct {
	Terminal string
	Year     int
	From, To validate.EntryNumber
	Entries  int64
	Closings int64
	Closing  validate.Closing // of the year, as the entries come to it
	SHA256   string           // of the whole file

	Heads       int // signatures of the device over closings
	Device      bool
	Central     bool      // the year's closing was countersigned, verified with a given key
	CentralTime time.Time // when
	CentralNote bool      // there is a countersignature, verified or not
}

// VerifyArchive verifies an archive on any machine: its hashes, the chain of its lines,
// every closing against the lines before it, and its signatures with the keys that are
// given. Without a device's key the proof says that nothing was signed for: whoever wrote
// the file could have made another chain. Central's countersignature may be missing where
// the archive was made before central had answered. The errors are ErrArchive, ErrEntry, and
// those of reading.
func VerifyArchive(r io.Reader, keys Keys) (ArchiveProof, error) {
	whole := sha256.New()
	v := archiveVerifier{keys: keys, sums: map[string]string{}, wanted: map[validate.EntryNumber]string{}}
	in := io.TeeReader(r, whole)
	v.tar = tar.NewReader(in)
	if err := v.run(); err != nil {
		return v.proof, fmt.Errorf("archive: %w", err)
	}
	// What follows the end of a tar file is nothing, in any length up to a record's.
	rest, err := io.ReadAll(io.LimitReader(in, 1<<20))
	if err != nil {
		return v.proof, fmt.Errorf("archive: %w", err)
	}
	if len(bytes.Trim(rest, "\x00")) > 0 || len(rest) >= 1<<20 {
		return v.proof, fmt.Errorf("archive: %w: bytes follow its end", ErrArchive)
	}
	v.proof.SHA256 = hex.EncodeToString(whole.Sum(nil))
	return v.proof, nil
}

// archiveVerifier reads an archive from its first byte to its last, once.
type archiveVerifier struct {
	keys  Keys
	tar   *tar.Reader
	sums  map[string]string // of the files read
	head  archiveHead
	heads []archivedHead
	acks  []archivedAck
	proof ArchiveProof

	wanted   map[validate.EntryNumber]string // hashes that signatures name
	found    map[validate.EntryNumber]string
	books    closeChecker
	closings bytes.Buffer // their lines, for closings.jsonl
}

func (v *archiveVerifier) run() error {
	if _, err := v.text("README.txt"); err != nil {
		return err
	}
	text, err := v.text("archive.json")
	if err != nil {
		return err
	}
	if err := v.readHead(text); err != nil {
		return err
	}
	if err := v.readSignatures(); err != nil {
		return err
	}
	v.books = *newCloseChecker(nil, 0)
	for i, epoch := range v.head.Epochs {
		if err := v.journal(epoch, i); err != nil {
			return err
		}
	}
	if err := v.ended(); err != nil {
		return err
	}
	if text, err = v.text("closings.jsonl"); err != nil {
		return err
	}
	if !bytes.Equal(text, v.closings.Bytes()) {
		return fmt.Errorf("%w: closings.jsonl does not hold the journal's closings", ErrArchive)
	}
	if err := v.checkSums(); err != nil {
		return err
	}
	if _, err := v.tar.Next(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: more files than it should have: %w", ErrArchive, err)
	}
	return v.signatures()
}

// next opens the next file, which must have this name.
func (v *archiveVerifier) next(name string) (io.Reader, error) {
	h, err := v.tar.Next()
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrArchive, name, err)
	}
	if h.Name != name || h.Typeflag != tar.TypeReg {
		return nil, fmt.Errorf("%w: %.80q where %s belongs", ErrArchive, h.Name, name)
	}
	return v.tar, nil
}

// text reads a file that is no journal.
func (v *archiveVerifier) text(name string) ([]byte, error) {
	f, err := v.next(name)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxArchiveText+1))
	if err != nil || len(text) > maxArchiveText {
		return nil, errors.Join(err, fmt.Errorf("%w: %s: %d bytes, at most %d", ErrArchive, name, len(text), maxArchiveText))
	}
	v.sums[name] = fmt.Sprintf("%x", sha256.Sum256(text))
	return text, nil
}

func (v *archiveVerifier) readHead(text []byte) error {
	if err := strictLine(bytes.TrimSuffix(text, []byte("\n")), &v.head); err != nil {
		return fmt.Errorf("archive.json: %w", err)
	}
	h := v.head
	switch {
	case h.Format != ArchiveFormat:
		return fmt.Errorf("%w: format %d, this program knows %d", ErrArchive, h.Format, ArchiveFormat)
	case h.Entries < 1 || h.Entries > maxArchiveLines || len(h.Epochs) == 0 || len(h.Epochs) > 1000 || h.From.Seq < 1 ||
		h.Epochs[0] != h.From.Epoch || h.Epochs[len(h.Epochs)-1] != h.End.Epoch || h.To.Epoch != h.End.Epoch || h.To.Seq > h.End.Seq:
		return fmt.Errorf("%w: archive.json names entries %v to %v, closing %v, that cannot be", ErrArchive, h.From, h.End, h.To)
	case h.From.Seq == 1 && h.Prev != Hash{}.String():
		return fmt.Errorf("%w: a first entry with one before it", ErrArchive)
	}
	v.proof = ArchiveProof{Terminal: h.Terminal, Year: h.Year, From: h.From, To: h.To}
	return nil
}

// strictLine reads a line of JSON in the one form in which it is written.
func strictLine(line []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("%w: %w", ErrArchive, err)
	}
	if again, err := encodeJSON(into); err != nil || !bytes.Equal(again, line) {
		return fmt.Errorf("%w: not in the form in which it is written", ErrArchive)
	}
	return nil
}

// readSignatures reads what was signed. It is verified once the lines are known.
func (v *archiveVerifier) readSignatures() error {
	text, err := v.text("heads.jsonl")
	if err != nil {
		return err
	}
	want := func(n validate.EntryNumber, hash string) error {
		if old := v.wanted[n]; old != "" && old != hash {
			return fmt.Errorf("%w: two hashes were signed for entry %v", ErrArchive, n)
		}
		v.wanted[n] = hash
		return nil
	}
	for line := range bytes.Lines(text) {
		var h archivedHead
		if err := strictLine(bytes.TrimSuffix(line, []byte("\n")), &h); err != nil || len(v.heads) >= maxArchiveHeads {
			return fmt.Errorf("heads.jsonl, line %d: %w", len(v.heads)+1, errors.Join(err, ErrArchive))
		}
		v.heads = append(v.heads, h)
		if err := want(validate.EntryNumber{Epoch: h.Epoch, Seq: h.Seq}, h.Hash); err != nil {
			return err
		}
	}
	if text, err = v.text("acks.jsonl"); err != nil {
		return err
	}
	for line := range bytes.Lines(text) {
		var k archivedAck
		err := strictLine(bytes.TrimSuffix(line, []byte("\n")), &k)
		body, _, cut := strings.Cut(k.Note, "\n\n")
		if err != nil || !cut || len(v.acks) >= maxArchiveHeads {
			return fmt.Errorf("acks.jsonl, line %d: %w", len(v.acks)+1, errors.Join(err, ErrArchive))
		}
		a, err := wire.ParseAck(body + "\n")
		if err != nil || a.Position.Epoch != k.Epoch || a.Position.Seq != k.Seq {
			return fmt.Errorf("acks.jsonl, line %d: %w: the note is of another entry: %w", len(v.acks)+1, ErrArchive, err)
		}
		v.acks = append(v.acks, k)
		if err := want(validate.EntryNumber{Epoch: k.Epoch, Seq: k.Seq}, a.Position.Hash); err != nil {
			return err
		}
	}
	v.found = map[validate.EntryNumber]string{}
	return nil
}

// journal reads the lines of one epoch.
func (v *archiveVerifier) journal(epoch int64, nth int) error {
	name := journalName(epoch)
	f, err := v.next(name)
	if err != nil {
		return err
	}
	sum := sha256.New()
	scan := bufio.NewScanner(io.TeeReader(f, sum))
	scan.Buffer(make([]byte, maxLine+2), maxLine+2)
	from, upTo := v.head.span(epoch)
	prev := Hash{}.String()
	if nth == 0 {
		prev = v.head.Prev
	}
	seq := from - 1
	for scan.Scan() {
		seq++
		line := scan.Bytes()
		if v.proof.Entries++; v.proof.Entries > v.head.Entries || seq > upTo {
			return fmt.Errorf("%w: %s: more lines than archive.json says", ErrArchive, name)
		}
		e, err := ParseEntry(line)
		switch {
		case err != nil:
			return fmt.Errorf("%s, entry %d: %w", name, seq, err)
		case e.Epoch != epoch || e.Seq != seq || e.Terminal != v.head.Terminal:
			return fmt.Errorf("%w: %s: entry %d-%d of %.64q stands where %d-%d belongs", ErrArchive, name, e.Epoch, e.Seq, e.Terminal, epoch, seq)
		case e.Prev != prev:
			return fmt.Errorf("%w: %s: entry %d does not carry the hash of the entry before", ErrArchive, name, seq)
		}
		prev = hashLine(line).String()
		if err := v.entry(e, line, prev); err != nil {
			return fmt.Errorf("%s, entry %d: %w", name, seq, err)
		}
	}
	if err := scan.Err(); err != nil {
		return fmt.Errorf("%s: %w: %w", name, ErrArchive, err)
	}
	if epoch == v.head.End.Epoch && seq != upTo {
		return fmt.Errorf("%w: %s ends at entry %d, it should at %d", ErrArchive, name, seq, upTo)
	}
	v.sums[name] = fmt.Sprintf("%x", sum.Sum(nil))
	return nil
}

func (v *archiveVerifier) entry(e Entry, line []byte, hash string) error {
	n := validate.EntryNumber{Epoch: e.Epoch, Seq: e.Seq}
	if want := v.wanted[n]; want != "" {
		if want != hash {
			return fmt.Errorf("%w: another line than the one that was signed", ErrArchive)
		}
		v.found[n] = hash
	}
	if e.Kind == KindClosing {
		v.closings.Write(line)
		v.closings.WriteByte('\n')
	}
	if n == v.head.From && n.Seq > 1 {
		return v.resume(e)
	}
	if err := v.books.entry(context.Background(), e); err != nil { // without tables nothing is asked
		return err
	}
	v.proof.Closings = v.books.closings
	if n == v.head.To {
		var err error
		v.proof.Closing, err = closingOf(e)
		return err
	}
	return nil
}

// resume begins with the closing of the year before.
func (v *archiveVerifier) resume(e Entry) error {
	c, err := e.Closing()
	if err != nil || c.Kind != validate.YearClosing {
		return fmt.Errorf("%w: it begins with no closing of a year: %w", ErrArchive, err)
	}
	v.books.books.resumeYear(e, c)
	return nil
}

func (v *archiveVerifier) ended() error {
	switch c := v.proof.Closing; {
	case v.proof.Entries != v.head.Entries:
		return fmt.Errorf("%w: %d lines, archive.json says %d", ErrArchive, v.proof.Entries, v.head.Entries)
	case c.Kind != validate.YearClosing || c.Period != fmt.Sprintf("%04d", v.head.Year):
		return fmt.Errorf("%w: entry %v is no closing of the year %d", ErrArchive, v.head.To, v.head.Year)
	case len(v.found) != len(v.wanted):
		return fmt.Errorf("%w: it has signatures of entries that are not in it", ErrArchive)
	}
	return nil
}

// checkSums holds SHA256SUMS, which lists every file in order, against what was read.
func (v *archiveVerifier) checkSums() error {
	var want strings.Builder
	names := []string{"README.txt", "archive.json", "heads.jsonl", "acks.jsonl"}
	for _, epoch := range v.head.Epochs {
		names = append(names, journalName(epoch))
	}
	for _, name := range append(names, "closings.jsonl") {
		fmt.Fprintf(&want, "%s  %s\n", v.sums[name], name)
	}
	text, err := v.text("SHA256SUMS")
	if err != nil {
		return err
	}
	if string(text) != want.String() {
		return fmt.Errorf("%w: a file is not as SHA256SUMS says", ErrArchive)
	}
	return nil
}

// signatures verifies what the device and central signed.
func (v *archiveVerifier) signatures() error {
	closing := v.head.To
	for _, h := range v.heads {
		p := wire.Position{Epoch: h.Epoch, Seq: h.Seq, Hash: h.Hash}
		signature, err := base64.StdEncoding.DecodeString(h.Signature)
		if err != nil || h.Text != wire.HeadText(v.head.Terminal, p) {
			return fmt.Errorf("%w: heads.jsonl: the text for entry %d-%d is not what a device signs: %w", ErrArchive, h.Epoch, h.Seq, err)
		}
		v.proof.Heads++
		if len(v.keys.Device) == 0 {
			continue
		}
		if !signedByAny(v.keys.Device, h.Text, signature) {
			return fmt.Errorf("%w: the device's signature for entry %d-%d does not verify with the key that was given", ErrArchive, h.Epoch, h.Seq)
		}
		v.proof.Device = v.proof.Device || h.Epoch == closing.Epoch && h.Seq == closing.Seq
	}
	if len(v.keys.Device) > 0 && !v.proof.Device {
		return fmt.Errorf("%w: the year's closing, entry %v, is not signed by the device", ErrArchive, closing)
	}
	for _, k := range v.acks {
		covers := k.Epoch == closing.Epoch && k.Seq >= closing.Seq
		v.proof.CentralNote = v.proof.CentralNote || covers
		if v.keys.Central == nil {
			continue
		}
		n, err := note.Open([]byte(k.Note), v.keys.Central)
		if err != nil {
			return fmt.Errorf("%w: central's signature for entry %d-%d does not verify with the key that was given: %w", ErrArchive, k.Epoch, k.Seq, err)
		}
		a, err := wire.ParseAck(n.Text)
		if err = cmp.Or(err, otherTerminal(a, v.head.Terminal)); err != nil {
			return err
		}
		if covers && !v.proof.Central {
			v.proof.Central, v.proof.CentralTime = true, a.Time
		}
	}
	return nil
}

func otherTerminal(a wire.Ack, terminal string) error {
	if a.Terminal != terminal {
		return fmt.Errorf("%w: central signed for terminal %.64q", ErrArchive, a.Terminal)
	}
	return nil
}

func signedByAny(keys []*ecdsa.PublicKey, text string, signature []byte) bool {
	digest := sha256.Sum256([]byte(text))
	for _, k := range keys {
		if ecdsa.VerifyASN1(k, digest[:], signature) {
			return true
		}
	}
	return false
}
