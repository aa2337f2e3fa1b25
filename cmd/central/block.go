package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"grattoir/cmd/internal/cli"
	"grattoir/configs"
	"grattoir/validate/game"
	"grattoir/validate/game/rules"
	"grattoir/validate/manifest"
	"grattoir/validate/manifest/seal"
	"grattoir/validate/money"
	"grattoir/validate/ticket"
)

func blockCommand() *cobra.Command {
	return cli.Group("block", "Make sample tickets and seal a block's tickets into a manifest", blockSampleCommand(), blockSealCommand(), blockCosignCommand())
}

// which names a block of a game, as both commands take it.
type which struct {
	game, emission, layout, gameCode string
	block                            int
}

func (w *which) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&w.game, "game", "", "the game's `id` in the catalogue, or the path of a catalogue file")
	cmd.Flags().StringVar(&w.emission, "emission", "1", "the emission's `number`")
	cmd.Flags().IntVar(&w.block, "block", 1, "the block's `number` in the emission")
	cmd.Flags().StringVar(&w.layout, "layout", "g40", "the `layout` of the printed codes: g40, tx24, mi18, or a file that ends in .toml")
	cmd.Flags().StringVar(&w.gameCode, "game-code", "", "the emission's game `code`, where the catalogue has none")
}

// production is what a block of a game is made from.
type production struct {
	game     game.Game
	table    game.Table
	layout   ticket.Layout
	gameCode string // "" when neither the catalogue nor a flag names it
}

func (w which) production() (production, error) {
	if w.game == "" {
		return production{}, cli.Usagef("--game is missing: name a game of the catalogue (central game list) or a catalogue file")
	}
	if w.block < 1 {
		return production{}, cli.Usagef("--block %d: blocks count from 1", w.block)
	}
	g, err := findGame(w.game)
	if err != nil {
		return production{}, err
	}
	p := production{game: g, gameCode: w.gameCode}
	if p.table, err = sealable(g); err != nil {
		return p, cli.Exit(cli.Refused, err)
	}
	if p.layout, err = findLayout(w.layout); err != nil {
		return p, err
	}
	for _, e := range g.Emissions {
		if e.Number != nil && *e.Number == w.emission && e.GameCode != nil {
			if w.gameCode != "" && w.gameCode != *e.GameCode {
				return p, cli.Usagef("--game-code %.12q: the catalogue gives emission %s the game code %s", w.gameCode, w.emission, *e.GameCode)
			}
			p.gameCode = *e.GameCode
		}
	}
	return p, nil
}

// findLayout gives a shipped layout by its name, or the one that a file describes.
func findLayout(name string) (ticket.Layout, error) {
	if strings.HasSuffix(name, ".toml") {
		text, err := readBounded(name)
		if err != nil {
			return ticket.Layout{}, err
		}
		l, err := configs.DecodeLayout(name, text)
		if err != nil {
			err = cli.Exit(cli.Usage, err)
		}
		return l, err
	}
	var names []string
	for _, l := range ticket.Shipped() {
		if l.Name == name {
			return l, nil
		}
		names = append(names, l.Name)
	}
	return ticket.Layout{}, cli.Usagef("--layout %.20q: want one of %s, or a file that ends in .toml", name, strings.Join(names, ", "))
}

// sealable gives the one table a block can be sealed with.
func sealable(g game.Game) (game.Table, error) {
	switch {
	case g.Status != game.Complete && g.Status != game.Inconsistent:
		return game.Table{}, fmt.Errorf("game %s is %s: without every row of its prize table no block can be sealed", g.ID, g.Status)
	case len(g.Tables) != 1:
		return game.Table{}, fmt.Errorf("game %s has %d prize tables, one for each stake: only games with one table have blocks of tickets", g.ID, len(g.Tables))
	}
	t := g.Tables[0]
	switch {
	case t.BlockSize == nil:
		return t, fmt.Errorf("game %s: its regulation gives no block size", g.ID)
	case t.Currency == "" || t.Price == nil:
		return t, fmt.Errorf("game %s: its regulation gives no price or no currency", g.ID)
	case len(t.NonCash) > 0:
		return t, fmt.Errorf("game %s has prizes that are no sum of money: they cannot be sealed yet", g.ID)
	case len(t.Rows) > 200:
		return t, fmt.Errorf("game %s has %d prize rows, at most 200", g.ID, len(t.Rows))
	}
	return t, nil
}

// tiers is the prize table for a number of tickets: the regulation's own for its block
// size, a scaled one below.
func (p production) tiers(tickets int64) ([]manifest.Tier, bool, error) {
	if tickets > *p.table.BlockSize {
		return nil, false, fmt.Errorf("%d tickets: a block of %s has %d", tickets, p.game.ID, *p.table.BlockSize)
	}
	rows, scaled := p.table.Rows, tickets < *p.table.BlockSize
	if scaled {
		var err error
		if rows, err = p.table.Scale(tickets); err != nil {
			return nil, false, err
		}
	}
	tiers := make([]manifest.Tier, len(rows))
	for i, r := range rows {
		tiers[i] = manifest.Tier{Count: r.Count, Amount: r.Amount}
	}
	return tiers, scaled, nil
}

// demonstrationCode gives a game whose code nobody has published one of the codes
// 90000 to 99999, always the same.
func demonstrationCode(id string) string {
	h := fnv.New32a()
	_, _ = io.WriteString(h, id)
	return fmt.Sprintf("%05d", 90000+h.Sum32()%10000)
}

type sampleAnswer struct {
	Game     string `json:"game"`
	GameCode string `json:"game_code"`
	Layout   string `json:"layout"`
	Tickets  int64  `json:"tickets"`
	Scaled   bool   `json:"scaled"`
	Seeded   bool   `json:"seeded"`
	File     string `json:"file"`
	Symbols  string `json:"symbols,omitempty"` // file of the tickets' symbols
}

func blockSampleCommand() *cobra.Command {
	var w which
	var tickets int64
	var packSize, firstTicket int
	var firstPack uint32
	var seed, out, rulesFile string
	var symbols, asJSON bool
	cmd := &cobra.Command{
		Use:   "sample --game G --out DIR",
		Short: "Make up tickets for tests and training: DIR/tickets.csv",
		Long: `Make up tickets with uniformly spread prizes and random secrets. The file is every
winner in clear: it is written for its owner only. Fewer tickets than the regulation's
block give a scaled block. With --seed the same tickets come out each time, so whoever
knows the seed knows every winner: for tests alone.

With --symbols each ticket also gets symbols that win its prize by the game's rules,
in DIR/symbols.csv (header pack,ticket,symbols). Each prize is shared among the ways to
win it as the rules' settings say, to the ticket, and every ticket that wins in a way is
equally likely.`,
		Example: `  central block sample --game bingo --tickets 90000 --symbols --out sample
  central block seal --game bingo --tickets sample/tickets.csv --key keys/example.key --out bingo-1.manifest`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := w.production()
			if err != nil {
				return err
			}
			if out == "" {
				return cli.Usagef("--out is missing: name the folder for tickets.csv")
			}
			if tickets == 0 {
				tickets = *p.table.BlockSize
			}
			if tickets < 0 || packSize < 1 || packSize > 1000 || firstTicket < 0 || firstTicket > 1 {
				return cli.Usagef("--tickets %d --pack-size %d --first-ticket %d: want tickets above 0, packs of 1 to 1000, first ticket 0 or 1", tickets, packSize, firstTicket)
			}
			tiers, scaled, err := p.tiers(tickets)
			if err != nil {
				return cli.Exit(cli.Usage, err)
			}
			if p.gameCode == "" {
				p.gameCode = demonstrationCode(p.game.ID)
			}
			s := seal.Sample{Layout: p.layout, GameCode: p.gameCode, Tickets: tickets, FirstPack: firstPack, PackSize: packSize,
				FirstTicket: firstTicket, Tiers: tiers, Seed: seed}
			a := sampleAnswer{p.game.ID, p.gameCode, p.layout.Name, tickets, scaled, seed != "", filepath.Join(out, "tickets.csv"), ""}
			if symbols {
				if s.Rules, err = sampleRules(p, rulesFile); err != nil {
					return err
				}
				a.Symbols = filepath.Join(out, "symbols.csv")
			}
			if err := writeSample(s, a.File, a.Symbols); err != nil {
				return err
			}
			if asJSON {
				return cli.JSON(cmd.OutOrStdout(), a)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d tickets of %s, game code %s, layout %s: every winner in clear, delete it after sealing\n",
				a.File, a.Tickets, a.Game, a.GameCode, a.Layout)
			if err == nil && symbols {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: their symbols, every winner in clear as well\n", a.Symbols)
			}
			return err
		},
	}
	w.flags(cmd)
	cmd.Flags().Int64Var(&tickets, "tickets", 0, "how many tickets; 0 is the regulation's block")
	cmd.Flags().IntVar(&packSize, "pack-size", 60, "tickets in a pack")
	cmd.Flags().Uint32Var(&firstPack, "first-pack", 1, "number of the first pack")
	cmd.Flags().IntVar(&firstTicket, "first-ticket", 0, "number of a pack's first ticket, 0 or 1")
	cmd.Flags().BoolVar(&symbols, "symbols", false, "draw each ticket's symbols too: DIR/symbols.csv")
	cmd.Flags().StringVar(&rulesFile, "rules", "", "`file` of the rules' settings in place of the shipped ones")
	cmd.Flags().StringVar(&seed, "seed", "", "make the same tickets for the same `text`")
	cmd.Flags().StringVar(&out, "out", "", "`folder` for tickets.csv")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the answer as JSON")
	return cmd
}

// sampleRules makes rules that can draw symbols.
func sampleRules(p production, file string) (rules.Maker, error) {
	r, err := readRules(p.game, p.table, file)
	if err != nil {
		return nil, err
	}
	maker, ok := r.(rules.Maker)
	if !ok {
		return nil, cli.Exit(cli.Refused, fmt.Errorf("the symbols of %s can be evaluated but not drawn", p.game.ID))
	}
	return maker, nil
}

// readRules reads the settings of a game's symbols: the shipped ones, or those of a file.
func readRules(g game.Game, t game.Table, file string) (rules.Rules, error) {
	if file == "" {
		name, text, err := configs.ShippedRules(g.ID)
		if err != nil {
			return nil, cli.Exit(cli.Refused, err)
		}
		r, err := configs.DecodeRules(name, text, g.ID, t)
		if errors.Is(err, rules.ErrNoCombinations) {
			err = cli.Exit(cli.Refused, fmt.Errorf("%w; give the file with --rules", err))
		}
		return r, err
	}
	text, err := readBounded(file)
	if err != nil {
		return nil, err
	}
	return configs.DecodeRules(file, text, g.ID, t)
}

// writeSample writes tickets.csv and, with a name for it, symbols.csv. Neither is left
// behind when one fails.
func writeSample(s seal.Sample, tickets, symbols string) (err error) {
	if err := os.MkdirAll(filepath.Dir(tickets), 0o700); err != nil {
		return err
	}
	var files []*os.File
	defer func() {
		for _, f := range files {
			if closing := f.Close(); err == nil {
				err = closing
			}
		}
		if err != nil {
			for _, f := range files {
				err = errors.Join(err, os.Remove(f.Name()))
			}
		}
	}()
	for _, path := range []string{tickets, symbols} {
		if path == "" {
			continue
		}
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return fmt.Errorf("%w (a sample is never written over: name another folder)", err)
		}
		files = append(files, f)
	}
	if symbols != "" {
		s.Symbols = files[1]
	}
	progress := cli.NewProgress(os.Stderr, "tickets", s.Tickets)
	done := int64(0)
	if err := s.Write(files[0], func(n int64) { progress.Add(n - done); done = n }); err != nil {
		return err
	}
	for _, f := range files {
		if err := f.Sync(); err != nil {
			return err
		}
	}
	return nil
}

type sealAnswer struct {
	File     string `json:"file"`
	SHA256   string `json:"sha256"`
	Bytes    int64  `json:"bytes"`
	BlockID  string `json:"block_id"`
	Game     string `json:"game"`
	GameCode string `json:"game_code"`
	Emission string `json:"emission"`
	Block    int    `json:"block"`
	Tickets  int64  `json:"tickets"`
	Prizes   int64  `json:"prizes"`
	Total    int64  `json:"total_minor"`
	First    uint32 `json:"first_pack"`
	PackSize int    `json:"pack_size"`
	Scaled   bool   `json:"scaled"`
}

func blockSealCommand() *cobra.Command {
	var w which
	var tickets, key, out, reissue, public, symbols, rulesFile, missing, pepper string
	var asJSON, weak bool
	cmd := &cobra.Command{
		Use:   "seal --game G --tickets FILE.csv|- --key FILE --out FILE.manifest",
		Short: "Seal a block's tickets into the signed manifest that terminals open",
		Long: `Read every ticket of a block (header code,prize_minor, any order, - for standard
input), check them to the last one against the regulation's prize table, and write the
signed manifest: whole or not at all, and never over another file.

With --symbols every ticket's prize is recomputed first from the symbols that are printed
on it (header pack,ticket,symbols, any order), and the first line that disagrees is named.

A layout whose secret has less than 60 bits (tx24, mi18) needs the block's pepper, a second
half of the key that is kept apart: whoever has it and the manifest finds every winner by
search. --pepper names its file, made new where there is none; --accept-weak says that
you know it.`,
		Example: `  central block seal --game bingo --tickets sample/tickets.csv --key keys/example.key --out bingo-1.manifest
  central block seal --game bingo --layout tx24 --tickets t.csv --key k.key --accept-weak --pepper bingo-1.pepper --out bingo-1.manifest
  central block seal --game bingo --tickets t.csv --symbols symbols.csv --key k.key --out bingo-1.manifest
  decrypt tickets.csv.age | central block seal --game bingo --tickets - --key keys/example.key --out bingo-1.manifest
  central block seal --game bingo --tickets t.csv --key k.key --out bingo-1b.manifest --reissue bingo-1.manifest --pub k.pub`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := w.production()
			if err != nil {
				return err
			}
			if tickets == "" || key == "" || out == "" {
				return cli.Usagef("--tickets, --key and --out are all needed\nTry: %s --help", cmd.CommandPath())
			}
			signer, err := readSigner(key)
			if err != nil {
				return err
			}
			in := cmd.InOrStdin()
			if tickets != "-" {
				f, err := os.Open(tickets)
				if err != nil {
					return err
				}
				defer f.Close()
				in = f
			}
			order := w.order(p, signer)
			if order.Pepper, err = findPepper(p.layout, pepper, weak, reissue != ""); err != nil {
				return err
			}
			if order.Missing, err = readMissing(missing); err != nil {
				return err
			}
			if symbols != "" {
				if order.Rules, err = readRules(p.game, p.table, rulesFile); err != nil {
					return err
				}
				f, err := os.Open(symbols)
				if err != nil {
					return err
				}
				defer f.Close()
				order.Symbols = f
			} else if rulesFile != "" {
				return cli.Usagef("--rules says what symbols win: add --symbols FILE")
			}
			if reissue != "" {
				if order.Reissue, err = readIssue(cmd.Context(), reissue, public); err != nil {
					return err
				}
				order.Serial = order.Reissue.Serial + 1
			}
			res, err := seal.Seal(cmd.Context(), in, order, out)
			if err != nil {
				return err
			}
			return answerSeal(cmd.OutOrStdout(), res, out, asJSON)
		},
	}
	w.flags(cmd)
	cmd.Flags().StringVar(&tickets, "tickets", "", "the tickets' `file`, - for standard input")
	cmd.Flags().StringVar(&missing, "allow-missing", "", "`tickets` that were never delivered: 12:3,12:7-9,15 (pack 15 whole), or @FILE")
	cmd.Flags().StringVar(&symbols, "symbols", "", "`file` of the tickets' symbols, from which every prize is recomputed")
	cmd.Flags().StringVar(&rulesFile, "rules", "", "`file` of the rules' settings in place of the shipped ones")
	cmd.Flags().StringVar(&key, "key", "", "`file` of the secret signing key")
	cmd.Flags().StringVar(&out, "out", "", "the manifest's `file`")
	cmd.Flags().StringVar(&reissue, "reissue", "", "seal the same block again: the manifest `file` of the issue before, whose block id is kept")
	cmd.Flags().StringVar(&public, "pub", "", "with --reissue: `file` of the public key that signed it")
	cmd.Flags().StringVar(&pepper, "pepper", "", "`file` of the block's pepper, for layouts with less than 60 bits of secret; made new where there is none")
	cmd.Flags().BoolVar(&weak, "accept-weak", false, "seal a layout with less than 60 bits of secret: whoever has pepper and manifest finds every winner")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the answer as JSON")
	return cmd
}

// findPepper gives the pepper that a weak layout needs, and none for any other. A new one
// is made and stored, durably, before anything is sealed with it.
func findPepper(l ticket.Layout, path string, accepted, reissue bool) (manifest.Pepper, error) {
	bits := l.SecretBits()
	switch {
	case bits >= manifest.MinSecretBits && (path != "" || accepted):
		return manifest.Pepper{}, cli.Usagef("layout %s has %d bits of secret and takes no pepper: leave out --pepper and --accept-weak", l.Name, bits)
	case bits >= manifest.MinSecretBits || bits == 0: // one without a secret is refused by name later
		return manifest.Pepper{}, nil
	case !accepted:
		return manifest.Pepper{}, cli.Exit(cli.Refused, fmt.Errorf("layout %s has %d bits of secret: with the block's pepper and its manifest every winner is found by search, so a stolen terminal tells who wins; --accept-weak seals it all the same", l.Name, bits))
	case path == "":
		return manifest.Pepper{}, cli.Usagef("--pepper is missing: name the file of the block's pepper, made new where there is none")
	}
	text, err := cli.ReadBounded(path, 1<<10)
	if errors.Is(err, fs.ErrNotExist) && !reissue {
		p := manifest.NewPepper()
		return p, writeNew(path, []byte(p.Text()), 0o600)
	}
	if err != nil {
		return manifest.Pepper{}, err
	}
	p, err := manifest.ParsePepper(string(text))
	if err != nil {
		return p, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

type cosignAnswer struct {
	File    string `json:"file"`
	SHA256  string `json:"sha256"`
	BlockID string `json:"block_id"`
	Game    string `json:"game"`
	Number  int    `json:"block"`
	Tickets int64  `json:"tickets"`
	Prizes  int64  `json:"prizes"`
	Total   int64  `json:"total_minor"`
	First   bool   `json:"first_signature_checked"`
}

func blockCosignCommand() *cobra.Command {
	var key, public string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "cosign FILE.manifest --key FILE",
		Short: "Add a second person's signature to a sealed manifest",
		Long: `Prove the whole file against its signed root, then add a signature of another key.
Terminals whose configuration wants two signatures open no manifest with one. With --pub
the first signature is checked before; without it, compare what is printed with what the
first signer printed. The file gets another hash: publish it after this.`,
		Example: `  central block cosign bingo-1.manifest --key keys/second.key --pub keys/lottery.pub`,
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if key == "" {
				return cli.Usagef("--key is missing: the secret key of the second signer")
			}
			if _, err := readSigner(key); err != nil {
				return err
			}
			secret, err := os.ReadFile(key)
			if err != nil {
				return err
			}
			first := ""
			if public != "" {
				if first, err = cli.ReadPublicKey(public); err != nil {
					return err
				}
			}
			h, err := seal.Cosign(cmd.Context(), args[0], string(secret), first)
			if err != nil {
				return err
			}
			sum, err := manifest.FileSHA256(args[0])
			if err != nil {
				return err
			}
			a := cosignAnswer{File: args[0], SHA256: sum, BlockID: h.Block.String(), Game: h.Game, Number: h.Number, Tickets: h.Tickets, First: first != ""}
			if a.Prizes, a.Total, err = prizesOf(h); err != nil {
				return err
			}
			if asJSON {
				return cli.JSON(cmd.OutOrStdout(), a)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: signed a second time\nblock %d of %s, id %s: %d tickets, %d prizes, %s\nsha256 %s\n", a.File, a.Number, a.Game, a.BlockID,
				a.Tickets, a.Prizes, money.Text(money.Amount(a.Total), h.Currency, money.English, money.Receipt), a.SHA256)
			return err
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "`file` of the second signer's secret key")
	cmd.Flags().StringVar(&public, "pub", "", "`file` of the first signer's public key, to check that signature")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the answer as JSON")
	return cmd
}

// readMissing reads --allow-missing: a list, or the name of a file that holds one.
func readMissing(text string) ([]seal.Missing, error) {
	name, file := strings.CutPrefix(text, "@")
	if file {
		list, err := readBounded(name)
		if err != nil {
			return nil, err
		}
		text = string(list)
	}
	missing, err := seal.ParseMissing(text)
	if err != nil {
		return nil, cli.Usagef("--allow-missing: %v", err)
	}
	return missing, nil
}

// readIssue reads the header of the issue before.
func readIssue(ctx context.Context, path, public string) (*manifest.Header, error) {
	if public == "" {
		return nil, cli.Usagef("--reissue needs --pub, the public key that signed %s", path)
	}
	key, err := cli.ReadPublicKey(public)
	if err != nil {
		return nil, err
	}
	keys, err := manifest.NewKeys(1, key)
	if err != nil {
		return nil, err
	}
	b, err := manifest.Open(ctx, path, keys)
	if b == nil {
		return nil, err
	}
	return &b.Header, b.Close()
}

func (w which) order(p production, signer note.Signer) seal.Order {
	var bar *cli.Progress
	stage := ""
	done := int64(0)
	return seal.Order{Game: p.game.ID, Name: p.game.Name, GameCode: p.gameCode, Emission: w.emission, Number: w.block, Serial: 1,
		Currency: p.table.Currency, Price: *p.table.Price, Internet: p.game.Channel == game.Internet, Prizes: p.tiers, Layout: p.layout, Signer: signer,
		Progress: func(now string, n, total int64) {
			if total == 0 {
				total = *p.table.BlockSize
			}
			if now != stage {
				bar, stage, done = cli.NewProgress(os.Stderr, now, total), now, 0
			}
			bar.Add(n - done)
			done = n
		}}
}

// prizesOf sums a block's prize table up, in minor units.
func prizesOf(h manifest.Header) (prizes, total int64, err error) {
	for _, t := range h.Tiers {
		sum, err := t.Amount.Times(t.Count)
		if err != nil {
			return 0, 0, err
		}
		prizes += t.Count
		total += int64(sum)
	}
	return prizes, total, nil
}

func readSigner(path string) (note.Signer, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	signer, err := note.NewSigner(strings.TrimSpace(string(text)))
	if strings.HasPrefix(string(text), "PRIVATE+GRATTOIR+CLAIM") {
		return nil, fmt.Errorf("%s is the secret half of a claim key: it opens claims and signs nothing", path)
	}
	if err != nil { // its message may quote the key
		return nil, fmt.Errorf("%s holds no secret signing key in note format: make one with central key new", path)
	}
	return signer, nil
}

func answerSeal(out io.Writer, res seal.Result, path string, asJSON bool) error {
	h := res.Header
	a := sealAnswer{File: path, SHA256: res.SHA256, Bytes: res.Size, BlockID: h.Block.String(), Game: h.Game, GameCode: h.GameCode, Emission: h.Emission,
		Block: h.Number, Tickets: h.Tickets, First: h.FirstPack, PackSize: h.PackSize, Scaled: h.Scaled}
	var err error
	if a.Prizes, a.Total, err = prizesOf(h); err != nil {
		return err
	}
	if asJSON {
		return cli.JSON(out, a)
	}
	kind := ""
	if a.Scaled {
		kind = ", scaled: for demonstration only"
	}
	_, err = fmt.Fprintf(out, "%s: block %d of %s, emission %s, game code %s%s\n%d tickets in packs of %d from pack %d; %d prizes, %s\n%d bytes, sha256 %s\n",
		a.File, a.Block, a.Game, a.Emission, a.GameCode, kind, a.Tickets, a.PackSize, a.First, a.Prizes, money.Text(money.Amount(a.Total), h.Currency, money.English, money.Receipt), a.Bytes, a.SHA256)
	return err
}
