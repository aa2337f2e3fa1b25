package console

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"

	"grattoir/sync/report"
)

// publicFor is how long the public numbers are kept, here and by whoever fetched them: many
// readers cost the store one read a minute.
const publicFor = time.Minute

// publicPrizes are the numbers that everybody may see, and when they were read.
type publicPrizes struct {
	mu   sync.Mutex
	read time.Time
	list []publicPrize
}

// publicPrize is a prize of an emission over all its published blocks. It names no terminal
// and no shop. Demonstration blocks are not in it.
type publicPrize struct {
	Game     string `json:"game"`
	Emission string `json:"emission"`
	Minor    int64  `json:"prize_minor"`
	Currency string `json:"currency"`
	Printed  int64  `json:"printed"`
	Left     int64  `json:"left"`
	// Uncertain are those of Left that may be gone already: paid where central has not heard.
	Uncertain int64 `json:"uncertain"`
}

// publicPath is where what everybody may see lies. Other sites may lead there and read it.
const publicPath = "/public/"

// publicPages are what everybody may see.
func (c *console) publicPages() {
	c.open("GET "+publicPath+"prizes.json", c.publicJSON)
	c.open("GET "+publicPath+"prizes", c.publicPage)
}

// prizesLeft reads the numbers, at most once in publicFor.
func (c *console) prizesLeft(ctx context.Context) ([]publicPrize, time.Time, error) {
	c.public.mu.Lock()
	defer c.public.mu.Unlock()
	now := c.opt.Now()
	if age := now.Sub(c.public.read); !c.public.read.IsZero() && age >= 0 && age < publicFor {
		return c.public.list, c.public.read, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readWithin) // those who wait get it too
	defer cancel()
	made, err := report.Make(ctx, c.db, "prizes", report.Filter{Zone: c.opt.Zone}, now)
	if err != nil {
		return nil, now, err
	}
	c.public.list, c.public.read = summed(made), now
	return c.public.list, now, nil
}

// summed adds up the blocks of each emission.
func summed(made report.Report) []publicPrize {
	list := []publicPrize{}
	for _, row := range made.Rows {
		v := cells(made, row)
		if v("demonstration").Text == "yes" {
			continue
		}
		p := publicPrize{Game: v("game").Text, Emission: v("emission").Text, Minor: v("amount").Int, Currency: v("currency").Text}
		i := slices.IndexFunc(list, func(q publicPrize) bool {
			return q.Game == p.Game && q.Emission == p.Emission && q.Minor == p.Minor && q.Currency == p.Currency
		})
		if i < 0 {
			i, list = len(list), append(list, p)
		}
		list[i].Printed, list[i].Left, list[i].Uncertain = list[i].Printed+v("printed").Int, list[i].Left+max(0, v("left").Int), list[i].Uncertain+v("uncertain").Int
	}
	slices.SortStableFunc(list, func(a, b publicPrize) int {
		return cmp.Or(cmp.Compare(a.Game, b.Game), cmp.Compare(a.Emission, b.Emission), cmp.Compare(a.Currency, b.Currency), cmp.Compare(b.Minor, a.Minor))
	})
	return list
}

// shared lets an answer be kept for a minute, and be read by other sites' pages.
func shared(w http.ResponseWriter) {
	w.Header().Set("Cache-Control", "public, max-age=60")
	w.Header().Set("Cross-Origin-Resource-Policy", "cross-origin")
	w.Header().Set("Access-Control-Allow-Origin", "*")
}

func (c *console) publicJSON(w http.ResponseWriter, r *http.Request) {
	list, read, err := c.prizesLeft(r.Context())
	if err != nil {
		http.Error(w, c.explain(r, err), status(err))
		return
	}
	text, err := json.Marshal(struct {
		Made   string        `json:"made"` // RFC 3339, UTC
		Prizes []publicPrize `json:"prizes"`
	}{read.UTC().Format(time.RFC3339), list})
	if err != nil {
		http.Error(w, c.explain(r, err), http.StatusInternalServerError)
		return
	}
	shared(w)
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(text, '\n')) // an error here is the reader's connection
}

type publicView struct {
	sheet
	Prizes []publicPrize
	Read   time.Time
}

func (c *console) publicPage(w http.ResponseWriter, r *http.Request) {
	v := publicView{sheet: c.sheet(r, report.Text{FR: "Lots restant à gagner", EN: "Prizes left to win"})}
	_, err := onlyKeys(r.URL.RawQuery)
	if err == nil {
		v.Prizes, v.Read, err = c.prizesLeft(r.Context())
	}
	if err != nil {
		v.Problem = c.explain(r, err)
	} else {
		v.Made, v.MadeAt = v.Read.UTC().Format(time.RFC3339), v.Read.In(c.opt.Zone).Format("15:04:05")
		shared(w)
	}
	c.render(w, r, status(err), "public.html", v)
}
