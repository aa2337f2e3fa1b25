package main

import (
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
	return cli.Group("game", "Read regulations and look into the catalogue of games",
		gameImportCommand(), gameListCommand(), gameShowCommand())
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

With --out the catalogue entry is written. A text whose table is missing or has
rows missing is never written; one whose figures disagree only with
--accept-findings, once a person has compared it with the official text.

Exit status: 0 complete, 3 figures disagree, 4 rows or the whole table missing.`,
		Example: `  central game import bingo.txt --out bingo.toml
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
	code := importCode(g.Status)
	if flags.out == "" {
		return cli.Exit(code, nil)
	}
	switch {
	case code == cli.Refused:
		return cli.Exit(code, fmt.Errorf("%s is not written: the text is %s; import one that has the whole prize table", flags.out, g.Status))
	case code == cli.Person && !flags.accept:
		return cli.Exit(code, fmt.Errorf("%s is not written: figures disagree; compare them with the official text, then add --accept-findings", flags.out))
	}
	text, err := configs.EncodeGame(g)
	if err != nil {
		return err
	}
	if err := writeAtomic(flags.out, text); err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "Written: %s\n", flags.out)
	return cli.Exit(code, nil)
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
				return cli.JSON(cmd.OutOrStdout(), games)
			}
			for _, g := range games {
				fmt.Fprintf(cmd.OutOrStdout(), "%-16s %-20s %-9s %s\n", g.ID, g.Name, orUnknown(string(g.Channel)), blocksText(g))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the answer as JSON")
	return cmd
}

// blocksText sums a game's tables up in a line: blocks and prices.
func blocksText(g game.Game) string {
	var parts []string
	for _, t := range g.Tables {
		parts = append(parts, blockText(t))
	}
	return strings.Join(parts, "; ")
}

func gameShowCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "show GAME",
		Short:   "Show a game of the catalogue, or of a catalogue file",
		Example: "  central game show bingo\n  central game show ./new-game.toml --json",
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			g, err := findGame(args[0])
			if err != nil {
				return err
			}
			return answerGame(cmd.OutOrStdout(), g, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the answer as JSON")
	return cmd
}

// maxCatalogueFile bounds what is read of a catalogue file, in bytes.
const maxCatalogueFile = 4 << 20

// findGame returns a game of the shipped catalogue by its id, or the one in a
// catalogue file when name ends in .toml.
func findGame(name string) (game.Game, error) {
	if strings.HasSuffix(name, ".toml") {
		file, err := os.Open(name)
		if err != nil {
			return game.Game{}, fmt.Errorf("open the catalogue file: %w", err)
		}
		defer file.Close()
		text, err := io.ReadAll(io.LimitReader(file, maxCatalogueFile+1))
		if err != nil {
			return game.Game{}, fmt.Errorf("%s: %w", name, err)
		}
		if len(text) > maxCatalogueFile {
			return game.Game{}, fmt.Errorf("%s: larger than 4 MiB: this is no catalogue file", name)
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
		fmt.Fprintf(&b, "Emission: %s, game code %s, opens %s, closes %s\n", orNil(e.Number), orNil(e.GameCode), orNil(e.Opens), orNil(e.Closes))
	}
	offerText(&b, g)
	for i, t := range g.Tables {
		tableText(&b, i, len(g.Tables), t)
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

func tableText(b *strings.Builder, i, of int, t game.Table) {
	b.WriteByte('\n')
	if of > 1 {
		fmt.Fprintf(b, "Table %d of %d. ", i+1, of)
	}
	fmt.Fprintf(b, "%s\n", blockText(t))
	for _, row := range t.Rows {
		printed := "not printed"
		if row.PrintedTotal != nil {
			printed = sumText(*row.PrintedTotal, t.Currency)
		}
		fmt.Fprintf(b, "  %12s x %14s  %16s\n", countText(row.Count), sumText(row.Amount, t.Currency), printed)
	}
	for _, prize := range t.NonCash {
		fmt.Fprintf(b, "  %12s x %s\n", countText(prize.Count), prize.Text)
	}
	prizes := "unknown"
	if t.PrintedCount != nil {
		prizes = countText(*t.PrintedCount)
	}
	fmt.Fprintf(b, "  %12s   %14s  %16s  as printed\n", prizes, "prizes", amountText(t.PrintedTotal, t.Currency))
	rateText(b, t)
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

// rateText prints the payout and the chances, from the rows where there are
// any, else from the printed totals.
func rateText(b *strings.Builder, t game.Table) {
	count, total := t.PrintedCount, t.PrintedTotal
	if len(t.Rows) > 0 {
		n, countErr := t.Count()
		sum, totalErr := t.Total()
		if countErr != nil || totalErr != nil {
			return
		}
		count, total = &n, &sum
	}
	if t.BlockSize == nil {
		return
	}
	if total != nil && t.Price != nil && *t.Price > 0 {
		sales := new(big.Int).Mul(big.NewInt(*t.BlockSize), big.NewInt(int64(*t.Price)))
		payout := new(big.Rat).SetFrac(new(big.Int).Mul(big.NewInt(int64(*total)), big.NewInt(100)), sales)
		fmt.Fprintf(b, "  Payout %s %% of the price", payout.FloatString(2))
		if len(t.NonCash) > 0 {
			b.WriteString(", money prizes only")
		}
		b.WriteByte('\n')
	}
	if count != nil && *count > 0 {
		fmt.Fprintf(b, "  One in %s wins money\n", big.NewRat(*t.BlockSize, *count).FloatString(2))
	}
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
