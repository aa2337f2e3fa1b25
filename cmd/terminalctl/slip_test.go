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
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"grattoir/sync/ledger"
	"grattoir/validate"
	"grattoir/validate/proof"
)

// till NAME pays three tickets of 20 euros on a terminal, the third of a demonstration
// block: NAME.db is its ledger, NAME.pem its published key, $NAME_1 to $NAME_3 are the codes on its slips. The reversal of the
// third is asked for.
func till(ts *testscript.TestScript, _ bool, args []string) {
	name := args[0]
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ts.Check(err)
	public, err := proof.Key{Terminal: name, Public: &key.PublicKey}.Text()
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(name+".pem"), []byte(public), 0o600))
	l, err := ledger.Open(context.Background(), ledger.Options{Path: ts.MkAbs(name + ".db"), Terminal: name,
		Moment: func() ledger.Moment { return ledger.Moment{Boot: "b", Device: time.Unix(1796000000, 0)} }})
	ts.Check(err)
	for n := range 3 {
		r, err := l.Record(context.Background(), validate.Claim{ID: fmt.Sprintf("%032x", n+1), Ticket: validate.TicketKey{Block: validate.BlockID{1}, Pack: 123, Number: uint16(n)},
			Tier: 1, Amount: 2000, Currency: "EUR", Slip: validate.SlipFacts{GameCode: "00399", Pack: "0000123", Ticket: fmt.Sprintf("%03d", n), Demonstration: n == 2}})
		ts.Check(err)
		s, err := proof.Of(r)
		ts.Check(err)
		c, err := s.Sign(func(text []byte) ([]byte, error) {
			digest := sha256.Sum256(text)
			return key.Sign(rand.Reader, digest[:], crypto.SHA256)
		})
		ts.Check(err)
		ts.Setenv(fmt.Sprintf("%s_%d", name, n+1), c.String())
	}
	_, err = l.RequestReversal(context.Background(), validate.Reversal{ID: fmt.Sprintf("%032x", 9), Number: validate.EntryNumber{Epoch: 1, Seq: 3}, Reason: "player-left", Operator: "anne", Manager: "max"})
	ts.Check(err)
	ts.Check(l.Close())
}
