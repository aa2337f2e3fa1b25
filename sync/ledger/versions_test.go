package ledger

import (
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"grattoir/sync/wire"
	"grattoir/validate"
)

// makeVersion writes testdata/vN.db of the present schema version. It is run once, by
// the last program of a version, before the next step is appended to migrations.
var makeVersion = flag.Bool("make-version", false, "write testdata/vN.db of the present schema version, if there is none")

// aged are the print states that a ledger of a version has, one claim each; claim n pays
// ticket n+1. The last one was printed twice.
var aged = []validate.PrintState{validate.Sending, validate.Held, validate.Unknown, validate.Sent, validate.Consumed, validate.Printed, validate.Printed}

const (
	agedAcked  = 4 // entries that central has acknowledged
	agedFailed = 3 // failed secrets of ticket 900
)

// age brings a new ledger into a state that has something of everything.
func age(t testing.TB, l *Ledger) {
	t.Helper()
	ctx := context.Background()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, state := range aged {
		r := record(t, l, claim(t, i+1))
		if state != validate.Sending {
			must(l.Mark(ctx, r.Number, state))
		}
		if i == len(aged)-1 {
			_, err := l.BeginCopy(ctx, r.Number)
			must(err)
			must(l.Mark(ctx, r.Number, state))
		}
	}
	must(l.Ack(ctx, ackAt(t, l, agedAcked, noon)))
	must(l.ApplyFeed(ctx, []wire.FeedItem{packItem(1, 120, 179, 3),
		{Seq: 2, Kind: wire.FeedPaid, Paid: &wire.PaidItem{Block: validate.BlockID{0xab}, Pack: 123, Ticket: 800, Terminal: "T-9", Number: "1-000042", At: wire.FormatTime(noon)}}}, 9))
	for range agedFailed {
		_, err := l.Failed(ctx, validate.TicketKey{Block: validate.BlockID{0xab}, Pack: 123, Number: 900})
		must(err)
	}
	must(l.SetSnapshot(ctx, 7, noon))
}

func versionFile(version int) string {
	return filepath.Join("testdata", fmt.Sprintf("v%d.db", version))
}

// TestMakeVersion makes the file that later versions are held against.
func TestMakeVersion(t *testing.T) {
	if !*makeVersion {
		t.Skip("run with -make-version before the next schema version is begun")
	}
	path := versionFile(len(migrations))
	if _, err := os.Stat(path); err == nil {
		t.Fatalf("%s is there: what was released is never made again", path)
	}
	_, public, err := GenerateClaimKey()
	if err != nil {
		t.Fatal(err)
	}
	opt := options(t.TempDir())
	if opt.ClaimKey, err = ParseClaimKey(public); err != nil {
		t.Fatal(err)
	}
	s := newSigners(t)
	opt.Sign = s.sign
	l := openTest(t, opt)
	age(t, l)
	s.ack(t, l, agedAcked, noon)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(opt.Path)
	if err != nil {
		t.Fatal(err)
	}
	device, err := x509.MarshalPKIXPublicKey(&s.device.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	public = fmt.Sprintf("%s\n%x\n", s.public, device)
	if err := errors.Join(os.WriteFile(path, raw, 0o644), os.WriteFile(keysFile(len(migrations)), []byte(public), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// keysFile holds the public keys that sign a version's file: central's and the device's.
func keysFile(version int) string { return strings.TrimSuffix(versionFile(version), ".db") + ".keys" }

// checkSignatures: what was signed then is verified now, from version 2 on.
func checkSignatures(t testing.TB, l *Ledger, version int) {
	t.Helper()
	if version < 2 {
		return
	}
	p := proved(t, l, versionKeys(t, version))
	entries := int64(len(aged))
	if version >= 3 {
		entries++ // the copy is one
	}
	if p.Central.Seq != agedAcked || p.Device.Seq != entries || p.Covered() != entries {
		t.Fatalf("%+v", p)
	}
}

// old puts a copy of testdata/vN.db where a ledger is opened.
func old(t testing.TB, version int) Options {
	t.Helper()
	raw, err := os.ReadFile(versionFile(version))
	if err != nil {
		t.Fatalf("%v: run go test ./sync/ledger -run TestMakeVersion -make-version with the last program of version %d", err, version)
	}
	opt := options(t.TempDir())
	if err := os.WriteFile(opt.Path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return opt
}

// TestLedgerOfEveryVersionOpensAndPaysOn: a ledger from every version before this one
// is carried forward with everything in it.
func TestLedgerOfEveryVersionOpensAndPaysOn(t *testing.T) {
	for version := 1; version <= len(migrations); version++ {
		if version == len(migrations) {
			if _, err := os.Stat(versionFile(version)); errors.Is(err, os.ErrNotExist) {
				continue // the present version, not released yet
			}
		}
		t.Run(fmt.Sprintf("v%d", version), func(t *testing.T) {
			opt := old(t, version)
			l := openTest(t, opt)
			if c, err := l.Verify(context.Background()); err != nil || c.Claims != int64(len(aged)) || c.Money != 2000*7 {
				t.Fatalf("%+v %v", c, err)
			}
			checkAged(t, l)
			checkSignatures(t, l, version)
			paysOn(t, l)
			l = reopen(t, l)
			if c, err := l.Verify(context.Background()); err != nil || c.Claims != int64(len(aged))+1 {
				t.Fatalf("%+v %v", c, err)
			}
			copies, err := filepath.Glob(opt.Path + ".v*")
			if want := btoi(version < len(migrations)); err != nil || len(copies) != want {
				t.Fatalf("copies %v, want %d: %v", copies, want, err)
			}
		})
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// checkAged holds a ledger against what age put into it.
func checkAged(t testing.TB, l *Ledger) {
	t.Helper()
	ctx := context.Background()
	for i, want := range aged {
		r, err := l.Receipt(ctx, validate.EntryNumber{Epoch: 1, Seq: int64(i + 1)})
		if err != nil || r.Print != want || r.Copies != 1+btoi(i == len(aged)-1) || r.Amount != 2000 || r.Slip.Game != "Bingo" || r.ID != claim(t, i+1).ID {
			t.Errorf("claim %d: %+v %v", i+1, r, err)
		}
	}
	waiting, err := l.Unprinted(ctx)
	if err != nil || len(waiting) != 2 {
		t.Errorf("%d slips wait: %v", len(waiting), err)
	}
	if u, err := l.Unsent(ctx); err != nil || u.Acked != agedAcked || u.Claims != int64(len(aged))-agedAcked {
		t.Errorf("%+v %v", u, err)
	}
	if a := l.Allowance(); a.Claims != 100 || a.Money != 1_000_000 {
		t.Errorf("%+v", a)
	}
	if p, ok, err := l.Pack(ctx, "00399", 150); err != nil || !ok || p.Epoch != 3 {
		t.Errorf("%+v %v %v", p, ok, err)
	}
	key := validate.TicketKey{Block: validate.BlockID{0xab}, Pack: 123, Number: 800}
	if p, err := l.PaidElsewhere(ctx, key); err != nil || p == nil || p.Terminal != "T-9" {
		t.Errorf("%+v %v", p, err)
	}
	key.Number = 900
	if n, err := l.Attempts(ctx, key); err != nil || n != agedFailed {
		t.Errorf("%d failed secrets: %v", n, err)
	}
	if cursor, err := l.FeedCursor(ctx); err != nil || cursor != 9 {
		t.Errorf("cursor %d: %v", cursor, err)
	}
	if at, err := l.SignedTime(ctx); err != nil || !at.Equal(noon.Truncate(time.Millisecond)) {
		t.Errorf("%v %v", at, err)
	}
}

// paysOn pays one more ticket, and none that is paid.
func paysOn(t testing.TB, l *Ledger) {
	t.Helper()
	for i := range aged {
		again := claim(t, i+1)
		again.ID = strings.Repeat("f", 32)
		if _, err := l.Record(context.Background(), again); !errors.Is(err, ErrPaid) {
			t.Errorf("ticket %d: %v", i+1, err)
		}
	}
	record(t, l, claim(t, 500))
}

// versionKeys are the public keys that sign a version's file.
func versionKeys(t testing.TB, version int) Keys {
	t.Helper()
	text, err := os.ReadFile(keysFile(version))
	if err != nil {
		t.Fatal(err)
	}
	var public string
	var der []byte
	if _, err := fmt.Sscanf(string(text), "%s\n%x\n", &public, &der); err != nil {
		t.Fatal(err)
	}
	verifier, err := note.NewVerifier(public)
	if err != nil {
		t.Fatal(err)
	}
	device, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		t.Fatal(err)
	}
	return Keys{Central: note.VerifierList(verifier), Device: []*ecdsa.PublicKey{device.(*ecdsa.PublicKey)}}
}

// TestSchemaNumberThatNoProgramWritesIsDamage: one flipped bit makes it negative.
func TestSchemaNumberThatNoProgramWritesIsDamage(t *testing.T) {
	for _, version := range []int{0, -1, -1 << 31} {
		opt := options(t.TempDir())
		if err := openTest(t, opt).Close(); err != nil {
			t.Fatal(err)
		}
		db, err := sql.Open("sqlite3", opt.Path)
		if err != nil {
			t.Fatal(err)
		}
		run(t, db, fmt.Sprintf("PRAGMA user_version = %d", version))
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(context.Background(), opt); !errors.Is(err, ErrDamaged) {
			t.Errorf("schema %d: %v", version, err)
		}
	}
}
