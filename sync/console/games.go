package console

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"html/template"
	"math"
	"net/http"
	"strings"
	"time"

	"grattoir/sync/central"
	"grattoir/sync/report"
	"grattoir/validate"
	"grattoir/validate/money"
)

// gamePages are the games with their blocks, and each block's page.
func (c *console) gamePages() {
	c.page("GET /games", everybody(), c.showGames)
	c.page("GET /block/{id}", everybody(), c.showBlock)
	c.menu("/games", everybody(), report.Text{FR: "Jeux", EN: "Games"})
}

// tierLine is a row of a block's prize table, as it stands.
type tierLine struct {
	Tier, Prize                     int64
	Printed, Paid, Left, LeftAmount int64
	Uncertain                       int64
}

// blockLine is a block with its money and what is left to win of it.
type blockLine struct {
	ID, Game, Emission, Currency string
	Number                       int64
	Demonstration                bool
	Tickets, OnSale, Sold        int64
	Prizes, Left                 int64 // of all tiers
	Top                          tierLine
	Table, Expected, PaidAmount  int64 // minor units
	TableKnown                   bool
	Uncertain, Late              int64 // prizes, and the terminals that make them so
	SalesEnd, Suspended          string
	Closed                       string // day, "" for none
	Tiers                        []tierLine
}

// Share writes a part of a whole as a percentage, a dash where there is no whole.
func (s sheet) Share(part, whole int64) string {
	if whole <= 0 {
		return "–"
	}
	text := fmt.Sprintf("%.1f\u00a0%%", 100*float64(part)/float64(whole))
	if s.lang == money.English {
		return strings.Replace(text, "\u00a0", "", 1)
	}
	return strings.Replace(text, ".", ",", 1)
}

// cells reads a report's rows by the keys of their columns.
func cells(r report.Report, row []report.Value) func(string) report.Value {
	return func(key string) report.Value {
		for i, column := range r.Columns {
			if column.Key == key {
				return row[i]
			}
		}
		return report.Value{}
	}
}

// readBlocks reads the blocks of a filter out of the two reports that know them, and what
// was ended or suspended of them.
func (c *console) readBlocks(ctx context.Context, f report.Filter, now time.Time) ([]blockLine, error) {
	liability, err := report.Make(ctx, c.db, "liability", f, now)
	if err != nil {
		return nil, err
	}
	prizes, err := report.Make(ctx, c.db, "prizes", f, now)
	if err != nil {
		return nil, err
	}
	published, err := c.opt.Central.Blocks(ctx)
	if err != nil {
		return nil, err
	}
	tickets := map[string]int64{}
	for _, b := range published {
		tickets[b.ID.String()] = b.Tickets
	}
	var list []blockLine
	at := map[string]int{}
	for _, row := range liability.Rows {
		v := cells(liability, row)
		b := blockLine{ID: v("block_id").Text, Game: v("game").Text, Emission: v("emission").Text, Number: v("block").Int, Demonstration: v("demonstration").Text == "yes", Currency: v("currency").Text,
			OnSale: v("on_sale").Int, Sold: v("sold").Int, Table: v("table").Int, TableKnown: v("table").Known, Expected: v("expected").Int, PaidAmount: v("paid").Int, Closed: v("closed").Text}
		b.Tickets = tickets[b.ID]
		at[b.ID] = len(list)
		list = append(list, b)
	}
	for _, row := range prizes.Rows {
		v := cells(prizes, row)
		t := tierLine{Tier: v("tier").Int, Prize: v("amount").Int, Printed: v("printed").Int, Paid: v("paid").Int, Left: v("left").Int, LeftAmount: v("left_amount").Int, Uncertain: v("uncertain").Int}
		b := &list[at[v("block_id").Text]]
		b.Tiers, b.Prizes, b.Left, b.Uncertain, b.Late = append(b.Tiers, t), b.Prizes+t.Printed, b.Left+t.Left, b.Uncertain+t.Uncertain, v("late_terminals").Int
		if t.Prize > b.Top.Prize {
			b.Top = t
		}
	}
	return list, c.readStops(ctx, list)
}

// readStops notes which blocks are put on sale no more and which are suspended.
func (c *console) readStops(ctx context.Context, list []blockLine) error {
	ends, err := c.opt.Central.SalesEnds(ctx)
	if err != nil {
		return err
	}
	suspended, err := c.opt.Central.Suspensions(ctx)
	if err != nil {
		return err
	}
	for i := range list {
		b := &list[i]
		for _, e := range ends {
			if e.Game == b.Game && e.Emission == b.Emission && int64(e.Block) == b.Number {
				b.SalesEnd = e.Reason
			}
		}
		for _, x := range suspended {
			if x.Game == b.Game && (x.Emission == "" || x.Emission == b.Emission) && (x.Block == 0 || int64(x.Block) == b.Number) {
				b.Suspended = x.Reason
			}
		}
	}
	return nil
}

type gamesView struct {
	sheet
	Blocks []blockLine
}

func (c *console) showGames(w http.ResponseWriter, r *http.Request) {
	v := gamesView{sheet: c.sheet(r, report.Text{FR: "Jeux et blocs", EN: "Games and blocks"})}
	ctx, cancel := context.WithTimeout(r.Context(), readWithin)
	defer cancel()
	_, err := onlyKeys(r.URL.RawQuery)
	if err == nil {
		v.Blocks, err = c.readBlocks(ctx, report.Filter{Zone: c.opt.Zone}, v.now)
	}
	if err != nil {
		v.Problem = c.told(r, err)
	}
	c.render(w, r, statusOf(err), "games.html", v)
}

// Bar is the share of a tier or a block that is left to win.
func (s sheet) Bar(id string, left, uncertain, all int64) template.HTML {
	words := fmt.Sprintf(s.T("%d sur %d restent, dont %d incertains", "%d of %d are left, %d of them uncertain"), left, all, uncertain)
	return shareBar(id, left, uncertain, all, words)
}

type blockView struct {
	sheet
	Block     blockLine
	File      central.Block
	Structure template.HTML
	Curve     template.HTML
	CurveNote string
	Alarm     bool // it pays more than its table lets expect
}

func (c *console) showBlock(w http.ResponseWriter, r *http.Request) {
	v := blockView{sheet: c.sheet(r, report.Text{FR: "Bloc", EN: "Block"})}
	ctx, cancel := context.WithTimeout(r.Context(), readWithin)
	defer cancel()
	_, err := onlyKeys(r.URL.RawQuery)
	if err == nil {
		err = c.readBlock(ctx, r.PathValue("id"), &v)
	}
	if err != nil {
		c.refuse(w, r, statusOf(err), c.told(r, err))
		return
	}
	c.render(w, r, http.StatusOK, "block.html", v)
}

// plain is a sheet for what nobody reads.
func (c *console) plain() sheet { return sheet{now: c.opt.Now(), zone: c.opt.Zone} }

// blockOf reads a block by its id as addresses have it.
func (c *console) blockOf(ctx context.Context, s sheet, text string) (blockLine, error) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(validate.BlockID{}) || validate.BlockID(raw) == (validate.BlockID{}) {
		return blockLine{}, report.Wrongf("%.40q n'est pas un bloc : la page des jeux a les identifiants", "%.40q is no block: the page of games has the ids", text)
	}
	list, err := c.readBlocks(ctx, report.Filter{Block: validate.BlockID(raw), Zone: c.opt.Zone}, s.now)
	if err != nil {
		return blockLine{}, err
	}
	return list[0], nil
}

func (c *console) readBlock(ctx context.Context, text string, v *blockView) (err error) {
	if v.Block, err = c.blockOf(ctx, v.sheet, text); err != nil {
		return err
	}
	files, err := c.opt.Central.Blocks(ctx)
	if err != nil {
		return err
	}
	for _, f := range files {
		if f.ID.String() == v.Block.ID {
			v.File = f
		}
	}
	curve, err := report.PayoutCurve(ctx, c.db, v.File.ID, v.now)
	if err != nil {
		return err
	}
	v.Title = fmt.Sprintf("%s %s %s %d", v.Block.Game, v.Block.Emission, v.T("bloc", "block"), v.Block.Number)
	if len(v.Block.Tiers) > 0 {
		v.Structure = v.structure()
		v.Curve = v.curve(curve)
	}
	return nil
}

// structure plots how many prizes there are of each amount, both by decades: were as rings,
// left as dots.
func (v *blockView) structure() template.HTML {
	low, high, most := math.Inf(1), 0.0, 1.0
	for _, t := range v.Block.Tiers {
		low, high, most = min(low, float64(t.Prize)), max(high, float64(t.Prize)), max(most, float64(t.Printed))
	}
	x := decades(v.T("lot", "prize"), low, high, func(a float64) string { return v.Money(int64(a), v.Block.Currency) })
	x.min, x.max = x.min*0.7, x.max*1.4 // room for the outermost prizes
	y := decades(v.T("nombre de lots du bloc", "prizes of the block"), 0.5, most, func(n float64) string {
		if n < 1 {
			return "0"
		}
		return count(int64(n))
	})
	desc := ""
	for _, t := range v.Block.Tiers {
		desc += fmt.Sprintf(v.T("%s : %d imprimés, %d restants. ", "%s: %d printed, %d left. "), v.Money(t.Prize, v.Block.Currency), t.Printed, t.Left)
	}
	chart := newChart("structure", v.T("Structure des lots", "Prize structure"), desc, 620, 320, x, y)
	for _, t := range v.Block.Tiers {
		chart.dumbbell(float64(t.Prize), float64(t.Printed), float64(t.Left), count(t.Printed))
	}
	return chart.SVG()
}

// curve plots what was paid beside what the tickets on sale hold on average.
func (v *blockView) curve(curve report.Curve) template.HTML {
	last := curve.Points[len(curve.Points)-1]
	highest := 0.0
	paid, expected, low, high := []point{}, []point{}, []point{}, []point{}
	for _, p := range curve.Points {
		x := float64(time.Date(p.Day.Year, p.Day.Month, p.Day.Day, 23, 59, 59, 0, time.UTC).Unix())
		paid, expected = append(paid, point{x, float64(p.Paid)}), append(expected, point{x, float64(p.Expected)})
		low, high = append(low, point{x, float64(p.Low)}), append(high, point{x, float64(p.High)})
		highest = max(highest, float64(p.Paid), float64(p.High))
	}
	from, to := time.Unix(int64(paid[0].x), 0), time.Unix(int64(paid[len(paid)-1].x), 0)
	if to.Sub(from) < 24*time.Hour {
		from = to.Add(-24 * time.Hour)
	}
	y := niceAxis(v.T("cumul", "total"), highest, func(a float64) string { return v.Money(int64(a), curve.Currency) })
	v.Alarm = last.Paid > last.High
	v.CurveNote = fmt.Sprintf(v.T("Payé : %s. Attendus des %s tickets mis en vente : %s (entre %s et %s, trois écarts types).", "Paid: %s. Expected of the %s tickets put on sale: %s (from %s to %s, three standard deviations)."),
		v.Money(last.Paid, curve.Currency), count(last.OnSale), v.Money(last.Expected, curve.Currency), v.Money(last.Low, curve.Currency), v.Money(last.High, curve.Currency))
	chart := newChart("curve", v.T("Paiements et attente", "Payouts and expectation"), v.CurveNote, 620, 320, days(from, to, time.UTC, 8), y)
	chart.band("band", low, high)
	chart.line("expected", v.T("attendu", "expected"), expected)
	chart.line("paid", v.T("payé", "paid"), paid)
	return chart.SVG()
}

// TopLeft tells whether a block still holds its top prize.
func (b blockLine) TopLeft() bool { return cmp.Compare(b.Top.Left, 0) > 0 }
