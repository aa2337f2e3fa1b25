package main

import (
	"bufio"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	_ "github.com/mattn/go-sqlite3" // the bare commits and reads
	"golang.org/x/mod/sumdb/note"

	"grattoir/configs"
	"grattoir/device/printer"
	"grattoir/device/terminal"
	"grattoir/sync/ledger"
	"grattoir/validate"
	"grattoir/validate/game"
	"grattoir/validate/manifest"
	"grattoir/validate/manifest/seal"
	"grattoir/validate/money"
	"grattoir/validate/policy"
	"grattoir/validate/proof"
	"grattoir/validate/ticket"
)

// sealedBlock is a block with some of its codes.
type sealedBlock struct {
	path   string
	public string // key that it is signed with
	block  *manifest.Block
	keys   manifest.Keys
	codes  []ticket.Code // spread over the block, winners and losers
}

// sealing seals a Bingo block from its CSV, beside one SHA-256 over the same file.
func (b *bench) sealing(ctx context.Context, work string) (*sealedBlock, error) {
	order, tiers, public, err := b.order()
	if err != nil {
		return nil, err
	}
	keys, err := manifest.NewKeys(1, public)
	if err != nil {
		return nil, err
	}
	csv := filepath.Join(work, "tickets.csv")
	s := &sealedBlock{path: filepath.Join(work, "b.manifest"), public: public, keys: keys}
	if err := writeCSV(csv, seal.Sample{Layout: ticket.G40(), GameCode: "399", Tickets: b.tickets, FirstPack: 1, PackSize: 60, Tiers: tiers}); err != nil {
		return nil, err
	}
	hashing, err := timeOf(func() error { _, err := manifest.FileSHA256(csv); return err })
	if err != nil {
		return nil, err
	}
	in, err := os.Open(csv)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	var res seal.Result
	took, err := timeOf(func() error { res, err = seal.Seal(ctx, in, order, s.path); return err })
	if err != nil {
		return nil, err
	}
	b.add(fmt.Sprintf("seal %d tickets from CSV", b.tickets), took.Round(time.Millisecond).String(), "sha256 of the CSV "+hashing.Round(time.Millisecond).String(),
		fmt.Sprintf("%.1f", float64(took)/float64(hashing)), "12 s")
	b.add("manifest file", fmt.Sprintf("%.1f MB", float64(res.Size)/1e6), fmt.Sprintf("tags alone %.1f MB", float64(b.tickets*manifest.TagBytes)/1e6),
		fmt.Sprintf("%.3f", float64(res.Size)/float64(b.tickets*manifest.TagBytes)), "75 MB")
	if s.codes, err = sampleCodes(csv, b.tickets); err != nil {
		return nil, err
	}
	return s, b.opening(ctx, s, keys)
}

// order is for a Bingo block, with its prizes and the public key it will be signed with.
func (b *bench) order() (seal.Order, []manifest.Tier, string, error) {
	g, order, public, err := b.gameOrder("bingo")
	if err != nil {
		return order, nil, public, err
	}
	rows := g.Tables[0].Rows
	scaled := b.tickets < *g.Tables[0].BlockSize
	if scaled {
		if rows, err = g.Tables[0].Scale(b.tickets); err != nil {
			return order, nil, public, err
		}
	}
	tiers := tiersOf(rows)
	order.Prizes = func(int64) ([]manifest.Tier, bool, error) { return tiers, scaled, nil }
	return order, tiers, public, nil
}

func tiersOf(rows []game.Row) (tiers []manifest.Tier) {
	for _, r := range rows {
		tiers = append(tiers, manifest.Tier{Count: r.Count, Amount: r.Amount})
	}
	return tiers
}

// gameOrder is a game of the catalogue and an order for a block of it with a new key, whose
// public part comes with it.
func (b *bench) gameOrder(id string) (game.Game, seal.Order, string, error) {
	games, err := configs.Games()
	if err != nil {
		return game.Game{}, seal.Order{}, "", err
	}
	at := slices.IndexFunc(games, func(g game.Game) bool { return g.ID == id })
	if at < 0 {
		return game.Game{}, seal.Order{}, "", fmt.Errorf("the catalogue has no %s", id)
	}
	g := games[at]
	skey, vkey, err := note.GenerateKey(rand.Reader, "bench")
	if err != nil {
		return g, seal.Order{}, "", err
	}
	signer, err := note.NewSigner(skey)
	if err != nil {
		return g, seal.Order{}, "", err
	}
	return g, seal.Order{Game: g.ID, Name: g.Name, Emission: "1", Number: 1, Serial: 1, Currency: g.Tables[0].Currency, Price: *g.Tables[0].Price,
		Internet: g.Channel == game.Internet, Layout: ticket.G40(), Signer: signer}, vkey, nil
}

func writeCSV(path string, s seal.Sample) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(s.Write(f, func(int64) {}), f.Close())
}

// sampleCodes takes a few thousand codes spread over the file.
func sampleCodes(path string, tickets int64) ([]ticket.Code, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	step := max(1, tickets/5000)
	var codes []ticket.Code
	scan := bufio.NewScanner(f)
	for n := int64(-1); scan.Scan(); n++ {
		winner := strings.HasSuffix(scan.Text(), ",2000")
		if n < 0 || n%step != 0 && !(winner && n%step < 8) {
			continue
		}
		digits, _, _ := strings.Cut(scan.Text(), ",")
		c, err := ticket.Parse(digits, 0, ticket.Shipped())
		if err != nil {
			return nil, err
		}
		codes = append(codes, c)
	}
	return codes, scan.Err()
}

func timeOf(f func() error) (time.Duration, error) {
	start := time.Now()
	err := f()
	return time.Since(start), err
}

// opening opens the block again and again, beside one SHA-256 over its file.
func (b *bench) opening(ctx context.Context, s *sealedBlock, keys manifest.Keys) error {
	var ours, beside times
	for range 20 {
		took, err := timeOf(func() error {
			block, err := manifest.Open(ctx, s.path, keys)
			if s.block != nil {
				err = errors.Join(err, s.block.Close())
			}
			s.block = block
			return err
		})
		if err != nil {
			return err
		}
		hashing, err := timeOf(func() error { _, err := manifest.FileSHA256(s.path); return err })
		if err != nil {
			return err
		}
		ours, beside = append(ours, took), append(beside, hashing)
	}
	b.add("open the block", ours.String(), "sha256 of the file "+beside.String(), ratio(ours, beside), "100 ms")
	return nil
}

// lookups proves tickets of the block, beside a bare read of the same chunk.
func (b *bench) lookups(ctx context.Context, s *sealedBlock) error {
	db, err := sql.Open("sqlite3", "file:"+s.path+"?mode=ro&immutable=1")
	if err != nil {
		return err
	}
	defer db.Close()
	bare, err := db.PrepareContext(ctx, "SELECT sealed FROM chunks WHERE chunk = ?")
	if err != nil {
		return err
	}
	shelf := manifest.NewShelf()
	if err := shelf.Put(s.block); err != nil {
		return err
	}
	facts := validate.Facts{AcceptScaled: true, Pack: validate.PackActive, Right: validate.RightOwner, AllowanceLeft: true}
	var ours, beside times
	for n := range b.rounds * 10 {
		c := s.codes[(n*7919)%len(s.codes)]
		i, _ := s.block.Header.Index(c.Pack, c.Number)
		took, err := timeOf(func() error {
			o, err := shelf.Open(ctx, c)
			if v := validate.Decide(o, facts, policy.None(), validate.Clock{}); err == nil && v.Reason != validate.Winner && v.Reason != validate.NotAWinner {
				err = fmt.Errorf("%v: %s", c, v.Reason)
			}
			return err
		})
		if err != nil {
			return err
		}
		reading, err := timeOf(func() error {
			var sealed []byte
			return bare.QueryRowContext(ctx, i/manifest.ChunkTickets).Scan(&sealed)
		})
		if err != nil {
			return err
		}
		ours, beside = append(ours, took), append(beside, reading)
	}
	b.add("look-up and decision", ours.String(), "bare read of the chunk "+beside.String(), ratio(ours, beside), "200 µs p99")
	return nil
}

// paper is a printer that notes when its first byte would leave.
type paper struct {
	stationery printer.Stationery
	profile    printer.Profile
	first      chan time.Time
}

func (p paper) Ready() *terminal.Fault   { return nil }
func (p paper) Warning() *terminal.Fault { return nil }
func (p paper) Changed() <-chan struct{} { return nil }

func (p paper) PrintClosing(context.Context, validate.Closing) (validate.PrintState, error) {
	return validate.Sent, nil
}

func (p paper) PrintResult(context.Context, terminal.Result) (validate.PrintState, error) {
	return validate.Sent, nil
}

// journal is the ledger as the counter takes it.
type journal struct{ *ledger.Ledger }

func (j journal) Z(ctx context.Context, kind validate.ClosingKind, operator string) (validate.Closing, error) {
	return j.Ledger.Z(ctx, kind, ledger.Ending{Operator: operator})
}

// ReleasePacks is no part of what is measured.
func (j journal) ReleasePacks(ctx context.Context, operator string, _ bool) (int, error) {
	return j.Release(ctx, operator, ledger.ReleaseAsked)
}

func (p paper) Print(_ context.Context, r validate.Receipt, _ bool, _ func(*terminal.Fault)) (validate.PrintState, error) {
	slip, err := p.stationery.Receipt(r)
	if err != nil {
		return validate.Held, err
	}
	text, err := printer.Encode(slip, p.profile)
	if err != nil || len(text) == 0 {
		return validate.Held, err
	}
	p.first <- time.Now()
	return validate.Sent, nil
}

// slipSigner signs slips as a terminal does.
func slipSigner() (func(validate.Receipt) (string, error), error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	return func(r validate.Receipt) (string, error) {
		s, err := proof.Of(r)
		if err != nil {
			return "", err
		}
		code, err := s.Sign(func(text []byte) ([]byte, error) {
			digest := sha256.Sum256(text)
			return key.Sign(rand.Reader, digest[:], crypto.SHA256)
		})
		if err != nil {
			return "", err
		}
		return code.String(), nil
	}, nil
}

// claims pays tickets, beside bare durable commits of the same size on the same disk.
func (b *bench) claims(ctx context.Context, work string, s *sealedBlock) error {
	secret, public, err := ledger.GenerateClaimKey()
	if err != nil || secret == "" {
		return err
	}
	key, err := ledger.ParseClaimKey(public)
	if err != nil {
		return err
	}
	book, err := ledger.Open(ctx, ledger.Options{Path: filepath.Join(work, "ledger.db"), Terminal: "B-1", ClaimKey: key,
		Moment: func() ledger.Moment { return ledger.Moment{Boot: "bench", Device: time.Now()} }})
	if err != nil {
		return err
	}
	defer book.Close()
	commit, closing, err := bareCommit(ctx, filepath.Join(work, "bare.db"))
	if err != nil {
		return err
	}
	defer closing()
	profile, err := printer.ProfileNamed("generic-80")
	if err != nil {
		return err
	}
	sign, err := slipSigner()
	if err != nil {
		return err
	}
	p := paper{printer.Stationery{Shop: printer.Shop{Name: "Tabac"}, Language: money.French, Zone: time.UTC, Sign: sign}, profile, make(chan time.Time, 1)}
	shelf := manifest.NewShelf()
	if err := shelf.Put(s.block); err != nil {
		return err
	}
	counter := terminal.New(terminal.Options{Name: "B-1", Shelf: shelf, Ledger: journal{book}, Printer: p, Central: terminal.StandAlone{}, AcceptScaled: true,
		Policy: func() policy.Policy {
			return policy.Policy{Version: "b1", Currency: "EUR", ShopLimit: 30000, ClaimDays: 30}
		}, Now: time.Now,
		Trusted: func() time.Time { return time.Time{} }, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	running, stop := context.WithCancel(ctx)
	defer stop()
	go counter.Run(running)
	return b.payments(ctx, counter, p, commit, s.codes)
}

func (b *bench) payments(ctx context.Context, counter *terminal.Terminal, p paper, commit func() error, codes []ticket.Code) error {
	var checks, ours, beside times
	for _, c := range codes {
		if len(ours) == b.rounds {
			break
		}
		var v terminal.View
		took, _ := timeOf(func() error {
			v = counter.Check(ctx, terminal.Scan{Text: c.Digits(), Entered: validate.Scanned})
			return nil
		})
		checks = append(checks, took)
		if v.Verdict.Reason != validate.Winner {
			continue
		}
		start := time.Now()
		v, err := counter.Pay(ctx, v.ID, terminal.Confirmed{Cash: true})
		if err != nil || v.Receipt == nil {
			return fmt.Errorf("%v was not paid: %s, %w", c, v.Verdict.Reason, err)
		}
		ours = append(ours, (<-p.first).Sub(start))
		if err := settled(ctx, counter); err != nil { // the paper's mark is a commit of its own, in nobody's way
			return err
		}
		bare, err := timeOf(commit)
		if err != nil {
			return err
		}
		beside = append(beside, bare)
	}
	b.add("scan to verdict shown, in process", checks.String(), "bare commit "+beside.String(), ratio(checks, beside), "1 ms median")
	b.add("pay, durable claim, printer's first byte", ours.String(), "bare commit "+beside.String(), ratio(ours, beside), "ratio 2")
	return nil
}

// settled waits until the newest slip's level is stored.
func settled(ctx context.Context, counter *terminal.Terminal) error {
	for {
		state, changed := counter.State()
		if r := state.View.Receipt; r != nil && r.Print.Done() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// bareCommit commits one row of a claim's size with the ledger's durability.
func bareCommit(ctx context.Context, path string) (func() error, func() error, error) {
	db, err := sql.Open("sqlite3", "file:"+path+"?_journal_mode=WAL&_synchronous=FULL&_txlock=immediate&_stmt_cache_size=8")
	if err != nil {
		return nil, nil, err
	}
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, "CREATE TABLE rows(id INTEGER PRIMARY KEY, line BLOB NOT NULL)"); err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	line := make([]byte, 1100) // an entry, its index rows and its print job
	sum := sha256.Sum256(line)
	copy(line, sum[:])
	return func() error { _, err := db.ExecContext(ctx, "INSERT INTO rows(line) VALUES(?)", line); return err }, db.Close, nil
}
