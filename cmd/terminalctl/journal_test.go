package main

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/mod/sumdb/note"

	"grattoir/sync/ledger"
	"grattoir/sync/wire"
	"grattoir/validate"
	"grattoir/validate/proof"
)

func scriptLedger(ts *testscript.TestScript, path string, sign func([]byte) ([]byte, error)) *ledger.Ledger {
	l, err := ledger.Open(context.Background(), ledger.Options{Path: path, Terminal: "T-1", Sign: sign,
		Moment: func() ledger.Moment { return ledger.Moment{Boot: "b", Device: time.Unix(1796000000, 0)} }})
	ts.Check(err)
	return l
}

func payOn(ts *testscript.TestScript, l *ledger.Ledger, n int) {
	for range n {
		head := l.Head()
		number := uint16(100*head.Epoch + head.Seq)
		_, err := l.Record(context.Background(), validate.Claim{ID: fmt.Sprintf("%032x", number+1), Ticket: validate.TicketKey{Block: validate.BlockID{1}, Pack: 1, Number: number},
			Tier: 1, Amount: 2000, Currency: "EUR", Slip: validate.SlipFacts{Game: "Bingo", Pack: "0000001", Ticket: fmt.Sprintf("%03d", number)}})
		ts.Check(err)
	}
}

// signed DIR makes DIR/ledger.db of terminal T-1 with six payments: central countersigned
// four of them, the device signed five, nobody the last. DIR/central.pub and DIR/T-1.pem
// are the keys, DIR/other.pub and DIR/other.pem those of others.
func signed(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o700))
	secret, public, err := note.GenerateKey(rand.Reader, "central")
	ts.Check(err)
	_, other, err := note.GenerateKey(rand.Reader, "central")
	ts.Check(err)
	signer, err := note.NewSigner(secret)
	ts.Check(err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ts.Check(err)
	foreign, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ts.Check(err)
	device, err := proof.Key{Terminal: "T-1", Public: &key.PublicKey}.Text()
	ts.Check(err)
	otherDevice, err := proof.Key{Terminal: "T-1", Public: &foreign.PublicKey}.Text()
	ts.Check(err)
	for name, text := range map[string]string{"central.pub": public, "other.pub": other, "T-1.pem": device, "other.pem": otherDevice} {
		ts.Check(os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o600))
	}
	l := scriptLedger(ts, filepath.Join(dir, "ledger.db"), func(text []byte) ([]byte, error) {
		digest := sha256.Sum256(text)
		return key.Sign(rand.Reader, digest[:], crypto.SHA256)
	})
	payOn(ts, l, 5)
	place, err := l.PositionAt(context.Background(), 4)
	ts.Check(err)
	ack := wire.Ack{Terminal: "T-1", Position: place, Time: time.Unix(1796000000, 0), AllowanceClaims: 50, AllowanceMinor: 100000}
	whole, err := note.Sign(&note.Note{Text: ack.Text()}, signer)
	ts.Check(err)
	ack.Note = string(whole)
	ts.Check(l.Ack(context.Background(), ack))
	ts.Check(l.Close()) // signs
	l = scriptLedger(ts, filepath.Join(dir, "ledger.db"), nil)
	payOn(ts, l, 1)
	ts.Check(l.Close())
}

// hold FILE keeps a ledger of T-1 open as a running program does, until the script ends.
func hold(ts *testscript.TestScript, _ bool, args []string) {
	l := scriptLedger(ts, ts.MkAbs(args[0]), nil)
	ts.Defer(func() { _ = l.Close() })
}

// payT1 FILE pays one more ticket on a ledger of T-1.
func payT1(ts *testscript.TestScript, _ bool, args []string) {
	l := scriptLedger(ts, ts.MkAbs(args[0]), nil)
	payOn(ts, l, 1)
	ts.Check(l.Close())
}
