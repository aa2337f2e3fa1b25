package uplink

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/mod/sumdb/note"

	"grattoir/sync/central"
	"grattoir/sync/ledger"
	"grattoir/validate"
	"grattoir/validate/manifest"
	"grattoir/validate/manifest/seal"
	"grattoir/validate/ticket"
)

// realLink joins an uplink and its ledger to the real central, in memory.
type realLink struct {
	*link
	real    *central.Central
	winners []ticket.Code
	block   *manifest.Block
	id      validate.BlockID
}

var realTiers = []manifest.Tier{{Count: 20, Amount: 2000}}

func joinReal(t *testing.T) *realLink {
	dir := t.TempDir()
	c, err := central.Open(t.Context(), central.Options{Dir: filepath.Join(dir, "central"), Hosts: []string{"central.test"}, AllowanceClaims: 500})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	r := &realLink{real: c, link: &link{fake: &fake{t: t}, blocks: make(chan struct{}, 9), net: newPipes()}}
	r.seal(t, filepath.Join(dir, "sealed.manifest"))
	serveReal(t, c, r.net)
	code, err := c.AddTerminal(t.Context(), "T-1")
	if err != nil {
		t.Fatal(err)
	}
	id, err := Enrol(t.Context(), EnrolOptions{URL: "https://central.test", Code: code.Code, Dir: filepath.Join(dir, "identity"), Dial: r.net.Dial})
	if err != nil {
		t.Fatal(err)
	}
	r.ledger, err = ledger.Open(t.Context(), ledger.Options{Path: filepath.Join(dir, "ledger.db"), Terminal: "T-1", ClaimKey: must(ledger.ParseClaimKey(id.ClaimKey)),
		Moment: func() ledger.Moment { return ledger.Moment{Boot: "b", Device: time.Now()} }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.ledger.Close() })
	r.opt = Options{Identity: id, Ledger: r.ledger, Blocks: BlockStore{Dir: filepath.Join(dir, "manifests"), Quota: 1 << 30}, Dial: r.net.Dial, OnBlocks: func() { r.blocks <- struct{}{} }}
	return r
}

// serveReal has a central answer on pipes until the test ends.
func serveReal(t *testing.T, c *central.Central, net *pipes) {
	s := &http.Server{Handler: c.API(), ErrorLog: log.New(io.Discard, "", 0)}
	var done sync.WaitGroup
	done.Go(func() { _ = s.Serve(tls.NewListener(net, c.TLSConfig())) })
	t.Cleanup(func() {
		c.EndPolls()
		_ = s.Close()
		done.Wait()
	})
}

// seal publishes a block of ten packs from pack 10 on.
func (r *realLink) seal(t *testing.T, path string) {
	private, public, err := note.GenerateKey(rand.Reader, "lottery")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.real.TrustSealKey(public); err != nil {
		t.Fatal(err)
	}
	var csv bytes.Buffer
	sample := seal.Sample{Layout: ticket.G40(), GameCode: "399", Tickets: 600, FirstPack: 10, PackSize: 60, Tiers: realTiers, Seed: "uplink"}
	if err := sample.Write(&csv, func(int64) {}); err != nil {
		t.Fatal(err)
	}
	for _, row := range strings.Split(csv.String(), "\n") {
		if digits, prize, _ := strings.Cut(row, ","); prize == "2000" {
			r.winners = append(r.winners, must(ticket.Parse(digits, 0, ticket.Shipped())))
		}
	}
	sealed, err := seal.Seal(t.Context(), &csv, seal.Order{Game: "bingo", Name: "Bingo", Emission: "1", Number: 1, Serial: 1, Currency: "EUR", Price: 1000, Layout: ticket.G40(),
		Signer: must(note.NewSigner(private)), Prizes: func(int64) ([]manifest.Tier, bool, error) { return realTiers, true, nil }}, path)
	if err != nil {
		t.Fatal(err)
	}
	r.id = sealed.Header.Block
	if _, err := r.real.Publish(t.Context(), path); err != nil {
		t.Fatal(err)
	}
}

// pays pays a winner by what the terminal itself holds: the block and the pack's owner epoch.
func (r *realLink) pays(t *testing.T, c ticket.Code) {
	t.Helper()
	pack, ok, err := r.ledger.Pack(t.Context(), "00399", c.Pack)
	if err != nil || !ok || pack.State != validate.PackActive || pack.Owner != "T-1" {
		t.Fatalf("pack %d is %+v %v %v", c.Pack, pack, ok, err)
	}
	_, err = r.ledger.Record(context.Background(), validate.Claim{ID: fmt.Sprintf("%032x", r.ledger.Head().Seq+1), Secret: c, Tier: 1, Amount: 2000, Currency: "EUR", OwnerEpoch: pack.Epoch,
		Ticket: validate.TicketKey{Block: r.block.Header.Block, Pack: c.Pack, Number: c.Number}, Entered: validate.Scanned,
		Slip: validate.SlipFacts{Pack: fmt.Sprintf("%07d", c.Pack), Ticket: fmt.Sprintf("%03d", c.Number)}})
	if err != nil {
		t.Fatal(err)
	}
}

// TestTerminalAndCentralEndWithEqualBooks is the whole link with the real other side: a
// block and packs arrive, claims are credited, a cut delays them, a suspension is seen.
func TestTerminalAndCentralEndWithEqualBooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := joinReal(t)
		r.start()
		pass(time.Second)
		<-r.blocks
		files, err := filepath.Glob(filepath.Join(r.opt.Blocks.Dir, "*"+blockSuffix))
		if err != nil || len(files) != 1 {
			t.Fatalf("%v %v", files, err)
		}
		if r.block, err = manifest.Open(t.Context(), files[0], must(manifest.NewKeys(1, r.opt.Identity.SealKeys...))); err != nil {
			t.Fatal(err)
		}
		defer r.block.Close()
		if _, err := r.real.Deliver(t.Context(), "00399", 10, 19, "T-1"); err != nil {
			t.Fatal(err)
		}
		if _, err := r.real.Activate(t.Context(), "00399", 10, 19); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		for i, c := range r.winners {
			if i == 7 {
				r.net.cut(true)
			}
			r.pays(t, c)
			pass(time.Second)
		}
		if s := r.uplink.Status(); s.Unsent != int64(len(r.winners))-7 || len(s.Faults) == 0 {
			t.Fatalf("while it is cut off: %+v", s)
		}
		r.net.cut(false)
		pass(3 * time.Minute)
		r.settled(t)
		if err := r.real.Suspend(t.Context(), "T-1", "stolen"); err != nil {
			t.Fatal(err)
		}
		pass(3 * time.Minute)
		if s := r.uplink.Status(); !s.Suspended() {
			t.Errorf("a suspended terminal does not know it: %+v", s)
		}
	})
}

// settled checks that central holds the journal line by line and credits every claim.
func (r *realLink) settled(t *testing.T) {
	t.Helper()
	s := r.uplink.Status()
	if s.Unsent != 0 || s.Acked.Seq != int64(len(r.winners)) || s.Exceptions != 0 || len(s.Faults) != 0 || s.Snapshot == 0 {
		t.Fatalf("%+v", s)
	}
	rows, err := r.real.Reader().QueryContext(t.Context(), "SELECT line FROM entries WHERE terminal = 'T-1' ORDER BY epoch, seq")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var theirs []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		theirs = append(theirs, line)
	}
	if mine := r.journal(); rows.Err() != nil || strings.Join(mine, "\n") != strings.Join(theirs, "\n") {
		t.Errorf("%d entries here, %d there, %v", len(mine), len(theirs), rows.Err())
	}
	if at, err := r.real.Terminal(t.Context(), "T-1"); err != nil || at.Unsent != 0 {
		t.Errorf("central's report: %+v %v", at, err)
	}
}
