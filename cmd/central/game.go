package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/configs"
	"grattoir/validate/game"
	"grattoir/validate/game/reglement"
	"grattoir/validate/money"
)

// gameCommand is `central game`: the catalogue and how a regulation gets into it.
func gameCommand() *cobra.Command {
	return cli.Group("game", "Read regulations, look into the catalogue of games, close and suspend them",
		gameImportCommand(), gameListCommand(), gameShowCommand(), gameEvaluateCommand(), gameCloseCommand(),
		gameSuspendCommand(), gameResumeCommand(), gameSuspensionsCommand(),
		gameEndSalesCommand(), gameResumeSalesCommand(), gameSalesCommand())
}

// importFlags are the flags of `central game import`.
type importFlags struct {
	out    string
	accept bool
	json   bool
}

func gameImportCommand() *cobra.Command {
	var flags importFlags
	cmd := &cobra.Command{
		Use:   "import FILE|-",
		Short: "Read a regulation and name every figure in it that disagrees",
		Long: `Read a game's regulation, a plain text in UTF-8 or Latin-1, print what was found
and every discrepancy of its figures. What the text does not say stays unknown.

With --out the catalogue entry is written. One whose figures disagree, or whose
table lacks rows, only with --accept-findings, once a person has compared it with the
official text; a text with no table never. Where FILE.toml holds the game's entry
already, its emissions are kept, and an opening or closing notice adds to them:
emission, game code, dates.

Exit status: 0 complete (or the notice is added), 3 figures disagree, 4 rows or the
whole table missing.`,
		Example: `  central game import bingo.txt --out bingo.toml
  central game import avis-de-cloture.txt --out bingo.toml
  curl -s https://example.org/reglement.txt | central game import - --json`,
		Args: cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error { return importGame(cmd, args[0], flags) },
	}
	cmd.Flags().StringVar(&flags.out, "out", "", "write the catalogue entry to `FILE.toml`")
	cmd.Flags().BoolVar(&flags.accept, "accept-findings", false, "write it although printed figures disagree")
	cmd.Flags().BoolVar(&flags.json, "json", false, "print the answer as JSON")
	return cmd
}

func importGame(cmd *cobra.Command, path string, flags importFlags) error {
	if flags.accept && flags.out == "" {
		return cli.Usagef("--accept-findings says what --out may write: add --out FILE.toml")
	}
	g, err := readRegulation(cmd.InOrStdin(), path)
	if err != nil {
		return err
	}
	if err := answerGame(cmd.OutOrStdout(), g, flags.json); err != nil {
		return err
	}
	if flags.out == "" {
		return cli.Exit(importCode(g.Status), nil)
	}
	return keepGame(cmd.ErrOrStderr(), g, flags)
}

// keepGame writes the catalogue entry, or adds a notice's emissions to the one that
// is there. What notices have told before is never lost.
func keepGame(log io.Writer, g game.Game, flags importFlags) error {
	old, exists, err := catalogueEntry(flags.out)
	if err != nil {
		return err
	}
	code := importCode(g.Status)
	switch notice := g.Status == game.NoTable && len(g.Emissions) > 0; {
	case notice && !exists:
		return cli.Exit(code, fmt.Errorf("%s does not exist: import the game's regulation first, a notice only adds to its entry", flags.out))
	case notice:
		if err := announce(log, &old, g); err != nil {
			return cli.Exit(cli.Refused, fmt.Errorf("%s is not changed: %w", flags.out, err))
		}
		g, code = old, cli.Done
	case g.Status == game.NoTable:
		return cli.Exit(code, fmt.Errorf("%s is not written: the text has no prize table; import one that has it", flags.out))
	case exists && g.ID != old.ID:
		return cli.Exit(cli.Refused, fmt.Errorf("%s is not written: it is the entry of game %q and the text is about %q: name another file", flags.out, old.ID, g.ID))
	case exists && g.Kind == game.Amendment:
		return cli.Exit(cli.Refused, fmt.Errorf("%s is not written: the text only amends the regulation: import the consolidated text, or name a new file to compare them", flags.out))
	case code != cli.Done && !flags.accept:
		why := "figures disagree"
		if g.Status == game.Incomplete {
			why = "rows of a prize table are missing (no block can be sealed from it)"
		}
		return cli.Exit(code, fmt.Errorf("%s is not written: %s; compare them with the official text, then add --accept-findings", flags.out, why))
	default:
		news := g
		g.Emissions = old.Emissions
		if err := announce(io.Discard, &g, news); err != nil {
			return cli.Exit(cli.Refused, fmt.Errorf("%s is not written: %w", flags.out, err))
		}
	}
	text, err := configs.EncodeGame(g)
	if err != nil {
		return err
	}
	if err := writeAtomic(flags.out, text); err != nil {
		return err
	}
	fmt.Fprintf(log, "Written: %s\n", flags.out)
	return cli.Exit(code, nil)
}

// catalogueEntry reads the entry that a file holds already, if it exists.
func catalogueEntry(path string) (g game.Game, exists bool, err error) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return game.Game{}, false, nil
	}
	g, err = findGame(path)
	if err != nil {
		return game.Game{}, true, fmt.Errorf("%s is no catalogue file and is not written over: %w", path, err)
	}
	return g, true, nil
}

// announce adds the emissions that a text names to a game's entry.
func announce(log io.Writer, to *game.Game, news game.Game) error {
	if news.ID != "" && to.ID != "" && news.ID != to.ID {
		return fmt.Errorf("the notice is about game %q, the entry about %q", news.ID, to.ID)
	}
	var others []string
	told := false
	for _, e := range news.Emissions {
		if e.Game != "" && game.Slug(e.Game) != to.ID {
			others = append(others, e.Game)
			continue
		}
		told = true
		e.Notices = []game.Source{news.Source}
		changes, err := to.Announce(e)
		if err != nil {
			return err
		}
		for _, c := range changes {
			fmt.Fprintf(log, "Emission %s, %s\n", orNil(e.Number), c)
		}
	}
	if !told && len(others) > 0 {
		return fmt.Errorf("the notice is about %s, the entry about game %q", strings.Join(others, ", "), to.ID)
	}
	return nil
}

// readRegulation reads the file, or standard input for "-".
func readRegulation(stdin io.Reader, path string) (game.Game, error) {
	if path == "-" {
		g, err := reglement.Parse(stdin)
		if err != nil {
			return game.Game{}, fmt.Errorf("standard input: %w", err)
		}
		g.Source.Name = "standard input"
		return g, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return game.Game{}, fmt.Errorf("open the regulation: %w", err)
	}
	defer file.Close()
	g, err := reglement.Parse(file)
	if err != nil {
		return game.Game{}, fmt.Errorf("%s: %w", path, err)
	}
	g.Source.Name = filepath.Base(path)
	return g, nil
}

func importCode(status game.Status) int {
	switch status {
	case game.Complete:
		return cli.Done
	case game.Inconsistent:
		return cli.Person
	}
	return cli.Refused
}

func gameListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the games of the catalogue",
		Example: "  central game list\n  central game list --json",
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			games, err := configs.Games()
			if err != nil {
				return err
			}
			if asJSON {
				answers := make([]gameAnswer, len(games))
				for i, g := range games {
					answers[i] = answerOf(g)
				}
				return cli.JSON(cmd.OutOrStdout(), answers)
			}
			return listGames(cmd.OutOrStdout(), games)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the answer as JSON")
	return cmd
}

// listGames prints a line for each prize table: a game with several stakes has one
// for each.
func listGames(w io.Writer, games []game.Game) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%-16s %-9s %-12s %12s %10s %8s %9s %9s\n", "GAME", "CHANNEL", "STATUS", "BLOCK", "PRICE", "ONE IN", "PAYOUT %", "OF SALE%")
	for _, g := range games {
		for i, t := range g.Tables {
			f := g.Figures(i)
			size := "unknown"
			if t.BlockSize != nil {
				size = countText(*t.BlockSize)
			}
			fmt.Fprintf(&b, "%-16s %-9s %-12s %12s %10s %8s %9s %9s\n", g.ID, orUnknown(string(g.Channel)), g.Status, size,
				amountText(t.Price, t.Currency), oneInText(f.OneIn), percentText(f.Payout), saleText(g, f.SalePayout))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func gameShowCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show GAME",
		Short: "Show a game of the catalogue, or of a catalogue file",
		Long: `Show a game: its emissions, its prize tables and what they come to. Payout and cost are
shares of what the block sells for, at the game's own (net) price; a game that is sold
only together with another has them at the sale price as well.`,
		Example: "  central game show bingo\n  central game show ./new-game.toml --json",
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			g, err := findGame(args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return cli.JSON(cmd.OutOrStdout(), answerOf(g))
			}
			return answerGame(cmd.OutOrStdout(), g, false)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the answer as JSON")
	return cmd
}

// maxCatalogueFile bounds what is read of a catalogue file, in bytes.
const maxCatalogueFile = 4 << 20

// readBounded reads a file of the catalogue or of its rules.
func readBounded(name string) ([]byte, error) { return cli.ReadBounded(name, maxCatalogueFile) }

// findGame returns a game of the shipped catalogue by its id, or the one in a
// catalogue file when name ends in .toml.
func findGame(name string) (game.Game, error) {
	if strings.HasSuffix(name, ".toml") {
		text, err := readBounded(name)
		if err != nil {
			return game.Game{}, err
		}
		return configs.DecodeGame(name, text)
	}
	games, err := configs.Games()
	if err != nil {
		return game.Game{}, err
	}
	ids := make([]string, len(games))
	for i, g := range games {
		if g.ID == name {
			return g, nil
		}
		ids[i] = g.ID
	}
	return game.Game{}, fmt.Errorf("game %q is not in the catalogue (%s): take one of these, or import its regulation and give the file FILE.toml", name, strings.Join(ids, ", "))
}

// answerGame prints a game for people or as JSON, the same facts in both.
func answerGame(w io.Writer, g game.Game, asJSON bool) error {
	if asJSON {
		return cli.JSON(w, g)
	}
	var b strings.Builder
	name := orUnknown(g.Name)
	if g.ID != "" {
		name += " (" + g.ID + ")"
	}
	fmt.Fprintf(&b, "Game:     %s\nKind:     %s\nChannel:  %s\nStatus:   %s\n", name, g.Kind, orUnknown(string(g.Channel)), statusText(g.Status))
	for _, e := range g.Emissions {
		of := ""
		if e.Game != "" {
			of = " of " + e.Game
		}
		fmt.Fprintf(&b, "Emission: %s%s, game code %s, opens %s, closes %s\n", orNil(e.Number), of, orNil(e.GameCode), orNil(e.Opens), orNil(e.Closes))
	}
	offerText(&b, g)
	for i := range g.Tables {
		tableText(&b, g, i)
	}
	findingsText(&b, g)
	_, err := io.WriteString(w, b.String())
	return err
}

func statusText(s game.Status) string {
	switch s {
	case game.Complete:
		return "complete: every row is readable and the figures agree"
	case game.Inconsistent:
		return "inconsistent: every row is readable, but printed figures disagree"
	case game.Incomplete:
		return "incomplete: the text lacks rows of a prize table"
	}
	return "no-table: the text has no prize table"
}

func offerText(b *strings.Builder, g game.Game) {
	if g.Offer == nil {
		return
	}
	currency := ""
	if len(g.Tables) > 0 {
		currency = g.Tables[0].Currency
	}
	fmt.Fprintf(b, "Offer:    sold together for %s", amountText(g.Offer.SalePrice, currency))
	if g.Offer.Participations != nil {
		fmt.Fprintf(b, ", participations in the other game: %d", *g.Offer.Participations)
	}
	b.WriteByte('\n')
	for _, part := range g.Offer.Parts {
		fmt.Fprintf(b, "          %s: %s minor units of it\n", part.Game, part.Minor)
	}
}

func tableText(b *strings.Builder, g game.Game, i int) {
	t, f := g.Tables[i], g.Figures(i)
	b.WriteByte('\n')
	if len(g.Tables) > 1 {
		fmt.Fprintf(b, "Table %d of %d. ", i+1, len(g.Tables))
	}
	fmt.Fprintf(b, "%s\n", blockText(t))
	if len(t.Rows) > 0 {
		fmt.Fprintf(b, "  %12s   %14s  %16s  %10s  %7s%s\n", "prizes", "of", "in all", "one in", "cost %", saleHead(g, "of sale %"))
	}
	for k, row := range t.Rows {
		printed := "not printed"
		if row.PrintedTotal != nil {
			printed = sumText(*row.PrintedTotal, t.Currency)
		}
		tier := f.Tiers[k]
		fmt.Fprintf(b, "  %12s x %14s  %16s  %10s  %7s%s\n", countText(row.Count), sumText(row.Amount, t.Currency), printed,
			oneInText(tier.OneIn), percentText(tier.Cost), saleHead(g, percentText(tier.SaleCost)))
	}
	for _, prize := range t.NonCash {
		fmt.Fprintf(b, "  %12s x %s\n", countText(prize.Count), prize.Text)
	}
	prizes := "unknown"
	if t.PrintedCount != nil {
		prizes = countText(*t.PrintedCount)
	}
	fmt.Fprintf(b, "  %12s   %14s  %16s  as printed\n", prizes, "prizes", amountText(t.PrintedTotal, t.Currency))
	rateText(b, g, t, f)
}

// saleHead is a last column that only games sold together with another have.
func saleHead(g game.Game, text string) string {
	if g.Offer == nil {
		return ""
	}
	return fmt.Sprintf("  %9s", text)
}

func blockText(t game.Table) string {
	unit := map[game.Unit]string{game.UnitTicket: "tickets", game.UnitGame: "game units", game.UnitPack: "packs"}[t.Unit]
	size := "Block of unknown size (" + unit + ")"
	if t.BlockSize != nil {
		size = fmt.Sprintf("Block of %s %s", countText(*t.BlockSize), unit)
	}
	if t.Price == nil {
		return size + ", price not in the text"
	}
	return size + " at " + amountText(t.Price, t.Currency)
}

// rateText prints the payout and the chances.
func rateText(b *strings.Builder, g game.Game, t game.Table, f game.Figures) {
	only := ""
	if len(t.NonCash) > 0 {
		only = ", money prizes only"
	}
	if f.Payout != nil {
		price := "the price"
		if g.Offer != nil {
			price = "the net price of " + amountText(t.Price, t.Currency)
		}
		fmt.Fprintf(b, "  Payout %s %% of %s%s\n", percentText(f.Payout), price, only)
	}
	if f.SalePayout != nil {
		fmt.Fprintf(b, "  Payout %s %% of the sale price of %s%s\n", percentText(f.SalePayout), amountText(g.Offer.SalePrice, t.Currency), only)
	}
	if f.OneIn != nil {
		fmt.Fprintf(b, "  One in %s wins money\n", oneInText(f.OneIn))
	}
}

// oneInText is a chance: two decimals below a hundred, whole numbers above.
func oneInText(r *big.Rat) string {
	switch {
	case r == nil:
		return "unknown"
	case r.Cmp(big.NewRat(100, 1)) < 0:
		return r.FloatString(2)
	}
	whole, ok := new(big.Int).SetString(r.FloatString(0), 10)
	if !ok || !whole.IsInt64() {
		return r.FloatString(0)
	}
	return countText(whole.Int64())
}

func percentText(r *big.Rat) string {
	if r == nil {
		return "unknown"
	}
	return new(big.Rat).Mul(r, big.NewRat(100, 1)).FloatString(2)
}

func saleText(g game.Game, r *big.Rat) string {
	if g.Offer == nil {
		return "-"
	}
	return percentText(r)
}

// gameAnswer is the JSON of `game show` and `game list`: an import's answer with the
// figures that the tables come to.
type gameAnswer struct {
	game    game.Game
	figures []figuresAnswer
}

type figuresAnswer struct {
	Prizes     *int64        `json:"prizes"`
	Total      *money.Amount `json:"total_minor"`
	OneIn      *string       `json:"one_in"`
	Payout     *string       `json:"payout_percent"`      // of the net price
	SalePayout *string       `json:"sale_payout_percent"` // of a combined offer's sale price
	Tiers      []tierAnswer  `json:"tiers"`
}

type tierAnswer struct {
	OneIn    *string       `json:"one_in"`
	Total    *money.Amount `json:"total_minor"`
	Cost     *string       `json:"cost_percent"`
	SaleCost *string       `json:"sale_cost_percent"`
}

func answerOf(g game.Game) gameAnswer {
	a := gameAnswer{game: g, figures: []figuresAnswer{}}
	for i := range g.Tables {
		f := g.Figures(i)
		out := figuresAnswer{f.Prizes, f.Total, exact(f.OneIn, 1), exact(f.Payout, 100), exact(f.SalePayout, 100), []tierAnswer{}}
		for _, tier := range f.Tiers {
			out.Tiers = append(out.Tiers, tierAnswer{exact(tier.OneIn, 1), tier.Total, exact(tier.Cost, 100), exact(tier.SaleCost, 100)})
		}
		a.figures = append(a.figures, out)
	}
	return a
}

// exact is a ratio times a factor to four decimals, null when unknown.
func exact(r *big.Rat, times int64) *string {
	if r == nil {
		return nil
	}
	text := new(big.Rat).Mul(r, big.NewRat(times, 1)).FloatString(4)
	return &text
}

// MarshalJSON adds the figures to the game's own object.
func (a gameAnswer) MarshalJSON() ([]byte, error) {
	text, err := json.Marshal(a.game)
	if err != nil {
		return nil, err
	}
	figures, err := json.Marshal(a.figures)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(text[:len(text)-1], ",\"figures\":%s}", figures), nil
}

func findingsText(b *strings.Builder, g game.Game) {
	if len(g.Findings) == 0 {
		b.WriteString("\nNo discrepancy was found.\n")
		return
	}
	fmt.Fprintf(b, "\nFindings (%d):\n", len(g.Findings))
	for _, f := range g.Findings {
		where := ""
		if f.Table != nil && len(g.Tables) > 1 {
			where = fmt.Sprintf("table %d, ", *f.Table+1)
		}
		fmt.Fprintf(b, "  %-14s %s%s\n", f.Code, where, f.Message)
	}
}

func sumText(a money.Amount, currency string) string {
	return money.Text(a, currency, money.French, money.Receipt)
}

func amountText(a *money.Amount, currency string) string {
	if a == nil {
		return "unknown"
	}
	return sumText(*a, currency)
}

// countText groups a count's digits with spaces; a currency with no decimals
// and no sign is just that.
func countText(n int64) string {
	return strings.TrimSuffix(money.Text(money.Amount(n), "JPY", money.French, money.Receipt), " JPY")
}

func orUnknown(text string) string {
	if text == "" {
		return "unknown"
	}
	return text
}

func orNil(text *string) string {
	if text == nil {
		return "unknown"
	}
	return *text
}

// writeAtomic writes a file whole or not at all: a temporary file in the same
// folder, synced, renamed over the name, and the folder synced, because only that
// makes the rename outlive a power cut.
func writeAtomic(path string, text []byte) (err error) {
	dir := filepath.Dir(path)
	file, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*")
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("write %s: the folder %s does not exist: make it first: %w", path, dir, err)
		}
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = file.Close() // closed already on some ways here
			_ = os.Remove(file.Name())
			err = fmt.Errorf("write %s: %w", path, err)
		}
	}()
	if _, err := file.Write(text); err != nil {
		return err
	}
	if err := file.Chmod(0o644); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return err
	}
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync()
}
