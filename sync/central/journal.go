package central

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"grattoir/sync/ledger"
	"grattoir/sync/wire"
	"grattoir/validate"
	"grattoir/validate/manifest"
)

// noHash stands before the first entry of a journal.
var noHash = strings.Repeat("0", 2*sha256.Size)

func isHash(s string) bool {
	raw, err := hex.DecodeString(s)
	return err == nil && len(raw) == sha256.Size && strings.ToLower(s) == s
}

// line is one line of an upload, read.
type line struct {
	seq   int64
	text  []byte
	hash  [sha256.Size]byte
	entry ledger.Entry
	known bool // of a version whose kinds and bodies this program reads
	proof proof
}

// upload stores the journal lines of a terminal and acknowledges them. The lines continue
// the journal that is held here, or repeat a part of it. Every well-signed line is
// stored; one that is not credited comes back as an exception and stays as a conflict,
// so that nothing ever blocks the queue. An upload repeated gets the same answer.
// Errors are *wire.Error, or central's own fault, after which nothing was stored.
func (c *Central) upload(ctx context.Context, who caller, u wire.Upload) (wire.UploadAnswer, error) {
	lines, err := readUpload(who, u)
	if err != nil {
		return wire.UploadAnswer{}, wireError(wire.KindBadRequest, "upload: %v", err)
	}
	// What is proven here depends on blocks and keys only, never on other uploads, and
	// takes the processor: it is done before the database is held.
	if err := c.proveNew(ctx, who, u.Epoch, lines); err != nil {
		return wire.UploadAnswer{}, err
	}
	a := wire.UploadAnswer{Protocol: wire.Protocol}
	var refused *wire.Error
	var newest int64
	var stored int
	var paid map[packKey]bool
	err = c.store.change(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		in := intake{c: c, tx: tx, who: who, now: c.now(), epoch: u.Epoch, rights: map[packKey]right{}, paid: map[packKey]bool{}}
		if refused, err = in.place(ctx, lines); err != nil || refused != nil {
			return err // a freeze is committed with its refusal
		}
		if err := in.store(ctx, lines); err != nil {
			return err
		}
		newest, stored, paid = in.newest, in.stored, in.paid
		a.Acked, a.Exceptions, err = in.answer(ctx, u)
		return err
	})
	switch {
	case err != nil:
		return wire.UploadAnswer{}, err
	case refused != nil:
		c.opt.Log.Warn("upload refused", "terminal", who.name, "kind", refused.Kind, "err", refused.Text)
		return wire.UploadAnswer{}, refused
	}
	c.committed()
	c.meters.entries.Add(stored)
	if stored > 0 {
		c.meters.conflicts.Add(len(a.Exceptions))
	}
	c.touch(paid)
	c.feed.added(newest)
	return a, nil
}

// readUpload checks everything that needs no database: shape, chain and signature.
func readUpload(who caller, u wire.Upload) ([]line, error) {
	n := int64(len(u.Lines))
	switch {
	case n == 0 || n > wire.MaxEntries:
		return nil, fmt.Errorf("%d lines, want 1 to %d", n, wire.MaxEntries)
	case u.Epoch < 1 || u.From < 1 || u.From > 1<<53:
		return nil, fmt.Errorf("epoch %d from %d: both count from 1", u.Epoch, u.From)
	case u.To.Epoch != u.Epoch || u.To.Seq != u.From+n-1:
		return nil, fmt.Errorf("%d lines from %d-%d do not end at %d-%d", n, u.Epoch, u.From, u.To.Epoch, u.To.Seq)
	}
	lines := make([]line, n)
	prev := ""
	for i, text := range u.Lines {
		l, err := readLine([]byte(text), who.name, u.Epoch, u.From+int64(i))
		if err != nil {
			return nil, fmt.Errorf("line %d of %d: %w", i+1, n, err)
		}
		if i > 0 && l.entry.Prev != prev {
			return nil, fmt.Errorf("line %d of %d: entry %d-%d does not carry the hash of the entry before", i+1, n, u.Epoch, l.seq)
		}
		prev = hex.EncodeToString(l.hash[:])
		lines[i] = l
	}
	if u.To.Hash != prev {
		return nil, fmt.Errorf("the last line's hash is not the head's")
	}
	signature, err := base64.StdEncoding.DecodeString(u.Signature)
	if err != nil {
		return nil, fmt.Errorf("signature: %w", err)
	}
	if sum := sha256.Sum256([]byte(wire.HeadText(who.name, u.To))); !ecdsa.VerifyASN1(who.key, sum[:], signature) {
		return nil, fmt.Errorf("the signature over the head %d-%d is not the enrolled key's", u.To.Epoch, u.To.Seq)
	}
	return lines, nil
}

// envelope is what a line of any later version has too, so that this program can store it.
type envelope struct {
	Version  int    `json:"v"`
	Terminal string `json:"terminal"`
	Epoch    int64  `json:"epoch"`
	Seq      int64  `json:"seq"`
	Kind     string `json:"kind"`
	Prev     string `json:"prev"`
}

func readLine(text []byte, terminal string, epoch, seq int64) (line, error) {
	l := line{seq: seq, text: text, hash: sha256.Sum256(text), known: true}
	if len(text) > wire.MaxLine {
		return l, fmt.Errorf("%d bytes, at most %d", len(text), wire.MaxLine)
	}
	var err error
	if l.entry, err = ledger.ParseEntry(text); err != nil {
		var e envelope
		if json.Unmarshal(text, &e) != nil || e.Version <= ledger.EntryVersion {
			return l, err
		}
		l.known = false
		l.entry = ledger.Entry{Version: e.Version, Terminal: e.Terminal, Epoch: e.Epoch, Seq: e.Seq, Kind: ledger.Kind(e.Kind), Prev: e.Prev}
	}
	switch e := l.entry; {
	case e.Terminal != terminal:
		return l, fmt.Errorf("an entry of terminal %.64q, sent by %s", e.Terminal, terminal)
	case e.Epoch != epoch || e.Seq != seq:
		return l, fmt.Errorf("entry %d-%d stands where %d-%d belongs", e.Epoch, e.Seq, epoch, seq)
	case !isHash(e.Prev) || (seq == 1 && e.Prev != noHash):
		return l, fmt.Errorf("entry %d-%d: no hash of an entry before", epoch, seq)
	case len(e.Kind) > 64:
		return l, fmt.Errorf("entry %d-%d: a kind of %d bytes", epoch, seq, len(e.Kind))
	}
	return l, nil
}

// proveNew proves the lines that are not held yet.
func (c *Central) proveNew(ctx context.Context, who caller, epoch int64, lines []line) error {
	var held wire.Position
	err := c.store.reader().QueryRowContext(ctx, "SELECT ack_epoch, ack_seq FROM terminals WHERE name = $1", who.name).Scan(&held.Epoch, &held.Seq)
	if err != nil {
		return err
	}
	found := blockSet{c: c, open: map[validate.BlockID]*manifest.Block{}}
	for i := range lines {
		if epoch == held.Epoch && lines[i].seq <= held.Seq {
			continue
		}
		if lines[i].proof, err = c.prove(ctx, lines[i], found); err != nil {
			return fmt.Errorf("terminal %s entry %d-%d: %w", who.name, epoch, lines[i].seq, err)
		}
	}
	return nil
}

// intake is one upload inside its transaction.
type intake struct {
	c      *Central
	tx     *sql.Tx
	who    caller
	now    string
	epoch  int64
	acked  wire.Position // end of the journal held
	fresh  bool          // nothing came since the terminal was enrolled
	agreed bool          // a person has agreed to a new epoch, of which nothing came yet
	newest int64         // last feed item added
	stored int           // entries that were not here
	rights map[packKey]right
	paid   map[packKey]bool // packs of the claims that were credited

	credited []line // the claims themselves
}

// place holds the lines against the journal that is here. It returns a refusal, or nil
// when the lines continue or repeat it.
func (in *intake) place(ctx context.Context, lines []line) (*wire.Error, error) {
	var state TerminalState
	var agreed int64
	var tells int
	var contact string
	// The row is held, so that two uploads of one terminal come one after the other.
	err := in.tx.QueryRowContext(ctx, "UPDATE terminals SET state = state WHERE name = $1 RETURNING state, ack_epoch, ack_seq, ack_hash, fresh_epoch, recover_epoch, tells, contact", in.who.name).
		Scan(&state, &in.acked.Epoch, &in.acked.Seq, &in.acked.Hash, &in.fresh, &agreed, &tells, &contact)
	if err == nil {
		err = silence(ctx, in.tx, in.who.name, contact, in.now, "")
	}
	if err != nil {
		return nil, err
	}
	if state != Enrolled { // since the request began
		return wireError(wire.KindForbidden, "terminal %s is %s", in.who.name, state), nil
	}
	if tells == 1 {
		if must, err := mustTell(ctx, in.tx, in.who.name); err != nil {
			return nil, err
		} else if must != nil {
			return wireError(wire.KindBusy, "central was put back: say hello and tell what you may pay, then send the journal"), nil
		}
	}
	in.agreed = agreed > 0
	if in.epoch > in.acked.Epoch && (in.fresh || in.epoch == agreed) {
		in.acked = wire.Position{Epoch: in.epoch, Hash: noHash}
	}
	held := in.acked
	first := lines[0].seq
	switch {
	case in.epoch != held.Epoch:
		e := wireError(wire.KindFork, "the journal here is in epoch %d, the upload is of epoch %d: a person must enrol the terminal again", held.Epoch, in.epoch)
		e.Acked = &held
		return e, nil
	case first > held.Seq+1:
		e := wireError(wire.KindBehind, "the journal here ends at %d-%d, the upload begins at %d", held.Epoch, held.Seq, first)
		e.Acked = &held
		return e, nil
	case first == held.Seq+1 && lines[0].entry.Prev != held.Hash:
		return in.freeze(ctx, first, lines)
	}
	for i, l := range lines[:min(int64(len(lines)), held.Seq-first+1)] {
		var stored []byte
		err := in.tx.QueryRowContext(ctx, "SELECT line FROM entries WHERE terminal = $1 AND epoch = $2 AND seq = $3", in.who.name, in.epoch, l.seq).Scan(&stored)
		if err != nil {
			return nil, fmt.Errorf("entry %d-%d, held here: %w", in.epoch, l.seq, err)
		}
		if !bytes.Equal(stored, l.text) {
			return in.freeze(ctx, l.seq, lines[i:])
		}
	}
	return nil, nil
}

// freeze suspends the terminal: two journals carry its name and key, a copied card or a
// damaged one, and neither may pay until a person has looked. The lines are kept.
func (in *intake) freeze(ctx context.Context, seq int64, strays []line) (*wire.Error, error) {
	held := in.acked
	if in.fresh || in.agreed { // a person has just let this device in, and it reads its journal first
		e := wireError(wire.KindFork, "entry %d-%d is another one here: the terminal was let in to read its journal, and goes on in a new epoch", in.epoch, seq)
		e.Acked, e.Stop = &held, wire.StopHeadBehind
		return e, nil
	}
	reason := fmt.Sprintf("fork: entry %d-%d has other bytes than the one held here", in.epoch, seq)
	e, err := freeze(ctx, in.tx, in.who.name, in.now, wire.StopFork, reason)
	if err == nil {
		_, err = in.tx.ExecContext(ctx, "UPDATE terminals SET contact = $1 WHERE name = $2", in.now, in.who.name)
	}
	if err == nil {
		err = in.keepStrays(ctx, strays)
	}
	e.Acked = &held
	return e, err
}

// store appends the lines that are not held yet, and judges them.
func (in *intake) store(ctx context.Context, lines []line) error {
	fresh := lines[min(int64(len(lines)), max(0, in.acked.Seq-lines[0].seq+1)):]
	in.stored = len(fresh)
	for run := range slices.Chunk(fresh, entriesAtOnce) {
		if err := in.keep(ctx, run); err != nil {
			return err
		}
	}
	if err := in.judge(ctx, fresh); err != nil {
		return err
	}
	if err := in.sumCredited(ctx); err != nil {
		return fmt.Errorf("sums of the claims: %w", err)
	}
	last := lines[len(lines)-1]
	if len(fresh) == 0 {
		_, err := in.tx.ExecContext(ctx, "UPDATE terminals SET contact = $1 WHERE name = $2", in.now, in.who.name)
		return err
	}
	hash := hex.EncodeToString(last.hash[:])
	// What the terminal last told of its head may be newer than this upload's end, or older.
	_, err := in.tx.ExecContext(ctx, `UPDATE terminals SET contact = $1, ack_epoch = $2, ack_seq = $3, ack_hash = $4, fresh_epoch = 0, recover_epoch = 0, frozen = '', frozen_at = '',
		unsent = CASE WHEN head_epoch = $2 AND head_seq > $3 THEN head_seq - $3 ELSE 0 END, head_hash = CASE WHEN head_epoch = $2 AND head_seq > $3 THEN head_hash ELSE $4 END,
		head_seq = CASE WHEN head_epoch = $2 AND head_seq > $3 THEN head_seq ELSE $3 END, head_epoch = $2 WHERE name = $5`, in.now, in.epoch, last.seq, hash, in.who.name)
	if err != nil {
		return err
	}
	return in.came(ctx, last.seq)
}

// entriesAtOnce bounds the values of one statement.
const entriesAtOnce = 100

// keep stores the lines of a run in one statement: a round trip for each would take most
// of an upload's time.
func (in *intake) keep(ctx context.Context, run []line) error {
	n := len(run)
	seqs, kinds, texts, hashes := make([]int64, n), make([]string, n), make([][]byte, n), make([][]byte, n)
	for i := range run {
		seqs[i], kinds[i], texts[i], hashes[i] = run[i].seq, string(plain(run[i].entry.Kind)), run[i].text, run[i].hash[:]
	}
	return writeAll(ctx, in.c.store, in.tx, batch{into: "entries",
		fixed: []column{{"terminal", in.who.name}, {"epoch", in.epoch}, {"received", in.now}},
		each:  []column{{"seq", seqs}, {"kind", kinds}, {"line", texts}, {"hash", hashes}}})
}

// answer acknowledges the upload's end. An acknowledgement that was signed once is given
// again as it was.
func (in *intake) answer(ctx context.Context, u wire.Upload) (acked string, exceptions []wire.Exception, err error) {
	err = in.tx.QueryRowContext(ctx, "SELECT note FROM acks WHERE terminal = $1 AND epoch = $2 AND seq = $3", in.who.name, u.Epoch, u.To.Seq).Scan(&acked)
	if errors.Is(err, sql.ErrNoRows) {
		if acked, err = in.c.signAck(in.who.name, u.To, in.c.opt.Now()); err != nil {
			return "", nil, err
		}
		if _, err := in.tx.ExecContext(ctx, "INSERT INTO acks(terminal, epoch, seq, note, signature) VALUES($1, $2, $3, $4, $5)", in.who.name, u.Epoch, u.To.Seq, acked, u.Signature); err != nil {
			return "", nil, err
		}
	} else if err == nil {
		acked, err = in.c.keys.signedNow(acked)
	}
	if err != nil {
		return "", nil, err
	}
	rows, err := in.tx.QueryContext(ctx, "SELECT seq, kind, text FROM conflicts WHERE terminal = $1 AND epoch = $2 AND seq BETWEEN $3 AND $4 ORDER BY seq",
		in.who.name, u.Epoch, u.From, u.To.Seq)
	if err != nil {
		return "", nil, err
	}
	defer rows.Close()
	exceptions = []wire.Exception{}
	for rows.Next() {
		var e wire.Exception
		if err := rows.Scan(&e.Seq, &e.Kind, &e.Text); err != nil {
			return "", nil, err
		}
		exceptions = append(exceptions, e)
	}
	return acked, exceptions, rows.Err()
}
