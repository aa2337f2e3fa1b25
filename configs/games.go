package configs

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"grattoir/validate/game"
	"grattoir/validate/money"
)

//go:embed games/*.toml
var gameFiles embed.FS

// Games returns the shipped catalogue, in the order of the games' ids. Each file
// is named by its game's id.
func Games() ([]game.Game, error) {
	files, err := gameFiles.ReadDir("games")
	if err != nil {
		return nil, fmt.Errorf("shipped games: %w", err)
	}
	games := make([]game.Game, 0, len(files))
	for _, file := range files {
		text, err := gameFiles.ReadFile("games/" + file.Name())
		if err != nil {
			return nil, fmt.Errorf("shipped games: %w", err)
		}
		g, err := DecodeGame(file.Name(), text)
		if err != nil {
			return nil, err
		}
		if file.Name() != g.ID+".toml" {
			return nil, fmt.Errorf("%s: the game's id is %q: name the file %s.toml", file.Name(), g.ID, g.ID)
		}
		games = append(games, g)
	}
	return games, nil
}

// DecodeGame reads a catalogue file and checks it as strictly as an import: a
// figure changed by hand must still agree with the others or have its finding.
func DecodeGame(name string, text []byte) (game.Game, error) {
	var g game.Game
	if err := Decode(name, text, &g); err != nil {
		return game.Game{}, err
	}
	if err := g.Validate(); err != nil {
		return game.Game{}, fmt.Errorf("%s: %w", name, err)
	}
	return g, nil
}

// EncodeGame writes a catalogue file for people to review: every row on a line of
// its own with the figures spelled as a regulation prints them. DecodeGame reads
// it back to the same value.
func EncodeGame(g game.Game) ([]byte, error) {
	if err := g.Validate(); err != nil {
		return nil, fmt.Errorf("game %q: %w", g.ID, err)
	}
	w := &writer{}
	w.header(g)
	if g.Name == "" {
		w.line("# The text does not name its game: add its name, and its id in lower case with hyphens.")
	}
	w.text("id", g.ID)
	w.text("name", g.Name)
	w.text("kind", string(g.Kind))
	w.text("channel", string(g.Channel))
	w.text("status", string(g.Status))
	if g.Source != (game.Source{}) {
		w.line("\n[source]")
		w.text("name", g.Source.Name)
		w.text("sha256", g.Source.SHA256)
	}
	for _, e := range g.Emissions {
		w.line("\n[[emissions]]")
		w.pointed("number", e.Number)
		w.pointed("game_code", e.GameCode)
		w.pointed("opens", e.Opens)
		w.pointed("closes", e.Closes)
		for _, n := range e.Notices {
			w.line("\n[[emissions.notices]]")
			w.text("name", n.Name)
			w.text("sha256", n.SHA256)
		}
	}
	w.offer(g.Offer)
	for _, t := range g.Tables {
		w.table(t)
	}
	for _, f := range g.Findings {
		w.line("\n[[findings]]")
		w.text("code", string(f.Code))
		w.index("table", f.Table)
		w.index("row", f.Row)
		w.pointed("printed", f.Printed)
		w.pointed("computed", f.Computed)
		w.line("message = " + quote(f.Message))
	}
	return w.out.Bytes(), nil
}

// writer writes TOML. Unknown values are left out.
type writer struct{ out bytes.Buffer }

func (w *writer) line(text string) {
	w.out.WriteString(text)
	w.out.WriteByte('\n')
}

func (w *writer) header(g game.Game) {
	w.line("# Written by `central game import`" + fromText(g.Source.Name) + ".")
	if g.Source.SHA256 != "" {
		w.line("# SHA-256 of the text: " + oneLine(g.Source.SHA256))
	}
	w.line("# Compare every figure with the official text before a block is sealed.")
	w.line("# Amounts are in minor units; the comments show them as the regulation does.")
	w.line("")
}

func fromText(name string) string {
	if name == "" {
		return ""
	}
	return " from " + oneLine(name)
}

// oneLine keeps a text inside its comment.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, text)
}

func (w *writer) text(key, value string) {
	if value != "" {
		w.line(key + " = " + quote(value))
	}
}

func (w *writer) pointed(key string, value *string) {
	if value != nil {
		w.line(key + " = " + quote(*value))
	}
}

func (w *writer) index(key string, value *int) {
	if value != nil {
		w.line(fmt.Sprintf("%s = %d", key, *value))
	}
}

func (w *writer) amount(key string, value *money.Amount, currency string) {
	if value != nil {
		w.line(fmt.Sprintf("%s = %s # %s", key, underscored(int64(*value)), printed(*value, currency)))
	}
}

func (w *writer) count(key string, value *int64) {
	if value != nil {
		w.line(key + " = " + underscored(*value))
	}
}

func (w *writer) offer(o *game.Offer) {
	if o == nil {
		return
	}
	w.line("\n# Sold only together with other games: shares in minor units of the price.\n[offer]")
	if o.SalePrice != nil {
		w.line("sale_price_minor = " + underscored(int64(*o.SalePrice)))
	}
	w.count("participations", o.Participations)
	for _, part := range o.Parts {
		w.line("\n[[offer.parts]]")
		w.line("game = " + quote(part.Game))
		w.line("minor = " + quote(part.Minor))
	}
}

func (w *writer) table(t game.Table) {
	w.line("\n[[tables]]")
	w.count("block_size", t.BlockSize)
	w.text("unit", string(t.Unit))
	w.amount("price_minor", t.Price, t.Currency)
	w.amount("stake_minor", t.Stake, t.Currency)
	w.text("currency", t.Currency)
	w.count("printed_count", t.PrintedCount)
	w.amount("printed_total_minor", t.PrintedTotal, t.Currency)
	if len(t.Rows) > 0 {
		w.line("rows = [")
		for _, row := range t.Rows {
			total, comment := "", ""
			if row.PrintedTotal != nil {
				total = ", printed_total_minor = " + underscored(int64(*row.PrintedTotal))
				comment = ": " + printed(*row.PrintedTotal, t.Currency)
			}
			w.line(fmt.Sprintf("  { count = %s, amount_minor = %s%s }, # %s x %s%s", underscored(row.Count), underscored(int64(row.Amount)), total,
				strings.ReplaceAll(underscored(row.Count), "_", " "), printed(row.Amount, t.Currency), comment))
		}
		w.line("]")
	}
	if len(t.NonCash) > 0 {
		w.line("non_cash = [")
		for _, prize := range t.NonCash {
			amount := ""
			if prize.Amount != nil {
				amount = ", amount_minor = " + underscored(int64(*prize.Amount))
			}
			w.line(fmt.Sprintf("  { count = %s%s, text = %s },", underscored(prize.Count), amount, quote(prize.Text)))
		}
		w.line("]")
	}
}

// printed is an amount as a regulation prints it.
func printed(a money.Amount, currency string) string {
	return money.Text(a, currency, money.French, money.Receipt)
}

// underscored groups the digits of a number of five digits and more.
func underscored(n int64) string {
	digits := strconv.FormatInt(n, 10)
	if n < 10_000 {
		return digits
	}
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "_" + digits[at:]
	}
	return digits
}

// quote writes a TOML basic string. JSON's escapes are TOML's, but for DEL.
func quote(text string) string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // a string always encodes
	return strings.ReplaceAll(strings.TrimSuffix(b.String(), "\n"), "\x7f", `\u007f`)
}
