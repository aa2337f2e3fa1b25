package ledger

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"pgregory.net/rapid"

	"grattoir/sync/wire"
)

// signers are a terminal's and a central's keys.
type signers struct {
	device  *ecdsa.PrivateKey
	central note.Signer
	public  string // central's
	Keys
}

func newSigners(t testing.TB) signers {
	t.Helper()
	secret, public, err := note.GenerateKey(rand.Reader, "central")
	if err != nil {
		t.Fatal(err)
	}
	s := signers{public: public}
	if s.central, err = note.NewSigner(secret); err != nil {
		t.Fatal(err)
	}
	verifier, err := note.NewVerifier(public)
	if err != nil {
		t.Fatal(err)
	}
	if s.device, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	s.Keys = Keys{Central: note.VerifierList(verifier), Device: []*ecdsa.PublicKey{&s.device.PublicKey}}
	return s
}

func (s signers) sign(text []byte) ([]byte, error) {
	digest := sha256.Sum256(text)
	return s.device.Sign(rand.Reader, digest[:], crypto.SHA256)
}

// ack has central countersign an entry.
func (s signers) ack(t testing.TB, l *Ledger, seq int64, at time.Time) {
	t.Helper()
	s.acks(t, l, ackAt(t, l, seq, at))
}

// acks signs an acknowledgement and gives it to the ledger.
func (s signers) acks(t testing.TB, l *Ledger, a wire.Ack) {
	t.Helper()
	signed, err := note.Sign(&note.Note{Text: a.Text()}, s.central)
	if err != nil {
		t.Fatal(err)
	}
	a.Note = string(signed)
	if err := l.Ack(context.Background(), a); err != nil {
		t.Fatal(err)
	}
}

func proved(t testing.TB, l *Ledger, k Keys) EpochProof {
	t.Helper()
	p, err := l.Prove(context.Background(), k)
	if err != nil || len(p.Epochs) != 1 {
		t.Fatalf("%+v %v", p, err)
	}
	return p.Epochs[0]
}

func TestHeadIsSignedAtEachStopAndClosingsStay(t *testing.T) {
	ctx := context.Background()
	s := newSigners(t)
	opt := options(t.TempDir())
	var signed int
	opt.Sign = func(text []byte) ([]byte, error) { signed++; return s.sign(text) }
	l := openTest(t, opt)
	if err := l.SignHead(ctx, HeadStop); err != nil {
		t.Fatal(err) // of nothing
	}
	record(t, l, claim(t, 1))
	record(t, l, claim(t, 2))
	for range 2 { // the second finds it signed
		l = reopen(t, l)
		if p := proved(t, l, s.Keys); p.Device != (Signed{Seq: 2, Verified: true, Why: HeadStop}) || p.Heads != 1 || p.Covered() != 2 {
			t.Fatalf("%+v", p)
		}
	}
	if signed != 1 {
		t.Errorf("one head was signed %d times", signed)
	}
	if err := l.SignHead(ctx, HeadClosing); err != nil {
		t.Fatal(err)
	}
	record(t, l, claim(t, 3))
	if p := proved(t, l, s.Keys); p.Device != (Signed{Seq: 2, Verified: true, Why: HeadClosing}) || p.Head.Seq != 3 || p.Covered() != 2 {
		t.Fatalf("%+v", p)
	}
	for n := range 3 {
		record(t, l, claim(t, 10+n))
		if err := l.SignHead(ctx, HeadUpload); err != nil {
			t.Fatal(err)
		}
	}
	if p := proved(t, l, s.Keys); p.Heads != 2 || p.Device.Seq != 6 {
		t.Fatalf("%d heads are kept: the closing's and the newest are wanted: %+v", p.Heads, p)
	}
}

func TestTerminalAloneSignsNothing(t *testing.T) {
	l := openTest(t, options(t.TempDir()))
	record(t, l, claim(t, 1))
	l = reopen(t, l)
	if p := proved(t, l, Keys{}); p.Heads != 0 || p.Covered() != 0 {
		t.Fatalf("%+v", p)
	}
}

// TestHeadThatCannotBeSignedIsTold: the stop goes on, the file is closed.
func TestHeadThatCannotBeSignedIsTold(t *testing.T) {
	broken := errors.New("the key is gone")
	opt := options(t.TempDir())
	opt.Sign = func([]byte) ([]byte, error) { return nil, broken }
	l := openTest(t, opt)
	record(t, l, claim(t, 1))
	if err := l.Close(); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	opt.Sign = nil
	openTest(t, opt)
}

func TestProofReachesAsFarAsVerifiedSignaturesAndNoFurther(t *testing.T) {
	s := newSigners(t)
	opt := options(t.TempDir())
	opt.Sign = s.sign
	l := openTest(t, opt)
	for i := range 9 {
		record(t, l, claim(t, i))
		if i == 6 {
			if err := l.SignHead(context.Background(), HeadClosing); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.ack(t, l, 5, noon)
	other := newSigners(t)
	for name, c := range map[string]struct {
		keys Keys
		want int64
		err  error
	}{
		"all keys":               {s.Keys, 7, nil},
		"central's alone":        {Keys{Central: s.Central}, 5, nil},
		"the device's alone":     {Keys{Device: s.Device}, 7, nil},
		"an earlier key as well": {Keys{Device: append(other.Device, s.Device...), Central: s.Central}, 7, nil},
		"none":                   {Keys{}, 0, nil},
		"another central's":      {Keys{Central: other.Central}, 0, ErrDamaged},
		"another device's":       {Keys{Device: other.Device}, 0, ErrDamaged},
	} {
		p, err := l.Prove(context.Background(), c.keys)
		if !errors.Is(err, c.err) || err == nil && (p.Epochs[0].Covered() != c.want || p.Epochs[0].Central.Seq != 5 || p.Epochs[0].Device.Seq != 7) {
			t.Errorf("%s: %+v %v", name, p, err)
		}
	}
}

func TestAcknowledgementThatIsNotItsNoteIsRefused(t *testing.T) {
	l := openTest(t, options(t.TempDir()))
	s := newSigners(t)
	record(t, l, claim(t, 1))
	a := ackAt(t, l, 1, noon)
	signed, err := note.Sign(&note.Note{Text: a.Text()}, s.central)
	if err != nil {
		t.Fatal(err)
	}
	a.Note, a.AllowanceMinor = string(signed), a.AllowanceMinor+1
	if err := l.Ack(context.Background(), a); err == nil || acked(t, l) != 0 {
		t.Fatal(err)
	}
}

// TestLedgerAcknowledgedBeforeNotesWereKeptSaysSo: a mark without its note proves nothing.
func TestLedgerAcknowledgedBeforeNotesWereKeptSaysSo(t *testing.T) {
	l := openTest(t, old(t, 1))
	s := newSigners(t)
	if p := proved(t, l, s.Keys); p.Central != (Signed{Seq: agedAcked, Unsigned: true}) || p.Covered() != 0 {
		t.Fatalf("%+v", p)
	}
	s.ack(t, l, 6, noon)
	if p := proved(t, l, s.Keys); p.Central.Unsigned || p.Covered() != 6 {
		t.Fatalf("%+v", p)
	}
}

// memory is a folder that need not last: tests that make hundreds of files to look at
// what is in them would otherwise wait for the disk. It is removed like t.TempDir.
func memory(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "grattoir-test-*")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// openRaw opens a file as somebody does who changes it behind the ledger's back.
func openRaw(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+path+"?_synchronous=OFF")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	return db
}

// signedLedger makes a file with signatures of every sort and gives its bytes.
func signedLedger(t testing.TB, s signers) []byte {
	t.Helper()
	opt := options(t.TempDir())
	opt.Sign = s.sign
	l := openTest(t, opt)
	for i := range signedEntries {
		record(t, l, claim(t, i))
		if i+1 == signedClosing || i+1 == signedHead {
			if err := l.SignHead(context.Background(), map[int]HeadReason{signedClosing: HeadClosing, signedHead: HeadUpload}[i+1]); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.ack(t, l, signedAck, noon)
	l.opt.Sign = nil // killed: what came last is not signed
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(opt.Path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

const (
	signedClosing = 5  // by the device, at a closing
	signedAck     = 8  // by central
	signedHead    = 11 // by the device
	signedEntries = 14
)

// forge changes an entry and makes the chain, the tables and, where it is asked to, the
// signed heads fit again: what somebody does who writes the file and has no key.
func forge(t testing.TB, db *sql.DB, at int, heads string) {
	t.Helper()
	rows, err := db.Query("SELECT seq, line FROM entries WHERE seq >= ? ORDER BY seq", at)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var lines [][]byte
	for rows.Next() {
		var seq int
		var line []byte
		if err := rows.Scan(&seq, &line); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	var prev string
	for i, line := range lines {
		var e Entry
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			e.Body = bytes.Replace(e.Body, []byte(`"amount_minor":2000`), []byte(`"amount_minor":9000`), 1)
		} else {
			e.Prev = prev
		}
		made, err := e.encode()
		if err != nil {
			t.Fatal(err)
		}
		hash := hashLine(made)
		prev = hash.String()
		sabotageTables(t, db, "UPDATE entries SET line = ?, hash = ? WHERE seq = ?", made, hash[:], at+i)
		if heads == "rehash" {
			run(t, db, "UPDATE heads SET hash = ? WHERE seq = ?", hash[:], at+i)
		}
	}
	run(t, db, "UPDATE prints SET amount = 9000 WHERE seq = ?", at)
	switch heads {
	case "drop":
		run(t, db, "DELETE FROM heads WHERE seq >= ?", at)
	case "drop all":
		run(t, db, "DELETE FROM heads")
		run(t, db, "UPDATE acks SET seq = 0, note = ''")
	}
}

func run(t testing.TB, db *sql.DB, q string, args ...any) {
	t.Helper()
	if _, err := db.Exec(q, args...); err != nil {
		t.Fatalf("%s: %v", q, err)
	}
}

// proveFile proves a file as it lies.
func proveFile(t testing.TB, path string, k Keys) (Proof, error) {
	t.Helper()
	db, err := sql.Open("sqlite3", still(path))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	return prove(context.Background(), db, migrations, k)
}

// TestForgedEntryIsFoundWhereASignatureCoversIt: whoever writes the file without the keys
// either is found, or has taken away the signatures, and then the proof does not claim
// what was changed.
func TestForgedEntryIsFoundWhereASignatureCoversIt(t *testing.T) {
	s := newSigners(t)
	raw := signedLedger(t, s)
	for _, heads := range []string{"keep", "rehash", "drop", "drop all"} {
		for at := 1; at <= signedEntries; at++ {
			path := filepath.Join(memory(t), "ledger.db")
			if err := os.WriteFile(path, raw, 0o600); err != nil {
				t.Fatal(err)
			}
			db := openRaw(t, path)
			forge(t, db, at, heads)
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			p, err := proveFile(t, path, s.Keys)
			covered := map[string]int{"keep": signedHead, "rehash": signedHead, "drop": signedAck, "drop all": 0}[heads]
			switch {
			case at <= covered && !errors.Is(err, ErrDamaged):
				t.Errorf("entry %d forged, heads: %s: %v", at, heads, err)
			case at > covered && (err != nil || p.Epochs[0].Covered() >= int64(at)):
				t.Errorf("entry %d forged, heads: %s: said to be covered up to %d, %v", at, heads, p.Epochs[0].Covered(), err)
			}
		}
	}
}

// TestEndCutOffIsFoundWhileASignatureIsKept, and no signature is no promise.
func TestEndCutOffIsFoundWhileASignatureIsKept(t *testing.T) {
	s := newSigners(t)
	raw := signedLedger(t, s)
	for last := range signedEntries {
		for _, heads := range []string{"keep", "drop", "drop all"} {
			path := filepath.Join(memory(t), "ledger.db")
			if err := os.WriteFile(path, raw, 0o600); err != nil {
				t.Fatal(err)
			}
			db := openRaw(t, path)
			for _, table := range []string{"prints", "claims", "entries"} {
				sabotageTables(t, db, "DELETE FROM "+table+" WHERE seq > ?", last)
			}
			if heads != "keep" {
				run(t, db, "DELETE FROM heads WHERE seq > ?", last)
			}
			if heads == "drop all" {
				run(t, db, "UPDATE acks SET seq = 0, note = '', time = '', claims = NULL, minor = NULL")
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			p, err := proveFile(t, path, s.Keys)
			found := map[string]bool{"keep": last < signedHead, "drop": last < signedAck, "drop all": false}[heads]
			if found != errors.Is(err, ErrDamaged) || !found && (err != nil || p.Epochs[0].Covered() > int64(last) || p.Head.Seq != int64(last)) {
				t.Errorf("cut after %d, heads: %s: %+v %v", last, heads, p, err)
			}
		}
	}
}

// said is everything that a proof vouches for: the lines, who is paid what, and how far
// signatures reach.
func said(t testing.TB, path string) string {
	t.Helper()
	db, err := sql.Open("sqlite3", still(path))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var b strings.Builder
	for _, q := range []string{"SELECT hex(line) FROM entries ORDER BY epoch, seq", "SELECT hex(block) || '/' || pack || '/' || ticket || '/' || round || '=' || epoch || '-' || seq FROM claims ORDER BY 1",
		"SELECT epoch || '-' || seq || ' ' || amount FROM prints ORDER BY 1", "SELECT seq || hex(hash) || hex(signature) FROM heads ORDER BY 1", "SELECT seq || time || claims || minor || note FROM acks"} {
		rows, err := db.Query(q)
		if err != nil {
			return err.Error()
		}
		for rows.Next() {
			var text string
			if err := rows.Scan(&text); err != nil {
				return err.Error()
			}
			fmt.Fprintln(&b, text)
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return err.Error()
		}
	}
	return b.String()
}

// TestAnyChangedByteIsFoundOrChangesNothingThatIsVouchedFor: bytes of the file that no
// table uses, or that hold what is not proven, may change unseen; an entry, a claim, an
// amount or a signature never.
func TestAnyChangedByteIsFoundOrChangesNothingThatIsVouchedFor(t *testing.T) {
	s := newSigners(t)
	raw := signedLedger(t, s)
	path := filepath.Join(memory(t), "ledger.db")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	want := said(t, path)
	var found int
	rapid.Check(t, func(rt *rapid.T) {
		changed := bytes.Clone(raw)
		at := rapid.IntRange(0, len(raw)-1).Draw(rt, "at")
		changed[at] ^= byte(rapid.IntRange(1, 255).Draw(rt, "by"))
		if err := os.WriteFile(path, changed, 0o600); err != nil {
			rt.Fatal(err)
		}
		if _, err := proveFile(t, path, s.Keys); err != nil {
			found++
		} else if got := said(t, path); got != want {
			rt.Fatalf("byte %d changed what is vouched for and was not found:\n%s", at, got)
		}
	})
	if found == 0 {
		t.Error("no change was found: the test proves nothing")
	}
}

// TestAnyChangedRowBeforeTheSignedHeadIsFound picks a column of a row and changes it.
func TestAnyChangedRowBeforeTheSignedHeadIsFound(t *testing.T) {
	s := newSigners(t)
	raw := signedLedger(t, s)
	columns := map[string][]string{
		"entries": {"epoch", "seq", "kind", "line", "hash"},
		"claims":  {"block", "pack", "ticket", "round", "epoch", "seq"},
		"prints":  {"epoch", "seq", "amount"},
		"heads":   {"epoch", "seq", "hash", "signature"},
		"acks":    {"epoch", "seq", "time", "claims", "minor", "note"},
		"meta":    {"terminal", "epoch"},
	}
	path := filepath.Join(memory(t), "ledger.db")
	rapid.Check(t, func(rt *rapid.T) {
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			rt.Fatal(err)
		}
		db := openRaw(t, path)
		defer db.Close() // a draw may end the run
		table := rapid.SampledFrom([]string{"entries", "claims", "prints", "heads", "acks", "meta"}).Draw(rt, "table")
		column := rapid.SampledFrom(columns[table]).Draw(rt, "column")
		seq := rapid.IntRange(1, signedHead).Draw(rt, "entry")
		where := fmt.Sprintf("seq = (SELECT min(seq) FROM %s WHERE seq >= %d)", table, seq)
		if table == "meta" || table == "acks" {
			where = "1"
		}
		var value any
		if err := db.QueryRow("SELECT " + column + " FROM " + table + " WHERE " + where).Scan(&value); err != nil {
			rt.Fatal(err)
		}
		sabotageTables(t, db, "UPDATE "+table+" SET "+column+" = ? WHERE "+where, other(rt, value))
		if err := db.Close(); err != nil {
			rt.Fatal(err)
		}
		p, err := proveFile(t, path, s.Keys)
		if err == nil {
			rt.Fatalf("%s.%s of entry %d: %+v", table, column, seq, p)
		}
	})
}

// other gives another value of the same type.
func other(t *rapid.T, value any) any {
	switch v := value.(type) {
	case int64:
		return v + rapid.SampledFrom([]int64{100, -100, 1 << 40}).Draw(t, "more")
	case string:
		return changeByte(t, []byte(v), func(b []byte) any { return string(b) })
	case []byte:
		return changeByte(t, v, func(b []byte) any { return b })
	}
	t.Fatalf("a %T", value)
	return nil
}

func changeByte(t *rapid.T, text []byte, as func([]byte) any) any {
	text = bytes.Clone(text)
	text[rapid.IntRange(0, len(text)-1).Draw(t, "at")] ^= byte(rapid.IntRange(1, 127).Draw(t, "by"))
	return as(text)
}

func TestNoteOfAnotherTerminalProvesNothingHere(t *testing.T) {
	s := newSigners(t)
	l := openTest(t, options(t.TempDir()))
	record(t, l, claim(t, 1))
	h := l.Head()
	a := wire.Ack{Terminal: "T-2", Position: wire.Position{Epoch: 1, Seq: 1, Hash: hex.EncodeToString(h.Hash[:])}, Time: noon}
	signed, err := note.Sign(&note.Note{Text: a.Text()}, s.central)
	if err != nil {
		t.Fatal(err)
	}
	run(t, l.db, "UPDATE acks SET seq = 1, time = ?, claims = 0, minor = 0, note = ?", timeText(noon), string(signed))
	if _, err := l.Prove(context.Background(), s.Keys); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "T-2") {
		t.Fatal(err)
	}
}
