package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"grattoir/sync/central"
	"grattoir/sync/ledger"
	"grattoir/sync/report"
	"grattoir/validate"
)

// conflictPages are the entries that were not credited, and what operations do with them.
func (c *console) conflictPages() {
	c.page("GET /conflicts", everybody(), c.showConflicts)
	c.page("GET /conflict/{terminal}/{number}", everybody(), c.showConflict)
	c.page("GET /conflict/{terminal}/{number}/proofs.json", everybody(), c.exportConflict)
	c.menu("/conflicts", everybody(), report.Text{FR: "Conflits", EN: "Conflicts"})
	for _, o := range []struct {
		act         central.ConflictAct
		title, done report.Text
	}{
		{central.Inquire, report.Text{FR: "Ouvrir l'examen", EN: "Begin the inquiry"}, report.Text{FR: "L'examen est ouvert.", EN: "The inquiry is begun."}},
		{central.SettleConflict, report.Text{FR: "Régler le conflit", EN: "Settle the conflict"}, report.Text{FR: "Le conflit est réglé.", EN: "The conflict is settled."}},
		{central.Reopen, report.Text{FR: "Rouvrir le conflit", EN: "Open the conflict again"}, report.Text{FR: "Le conflit est rouvert.", EN: "The conflict is open again."}},
	} {
		c.order(order{name: "conflict-" + string(o.act), title: o.title, done: o.done,
			fields: []field{{name: "terminal", title: report.Text{FR: "terminal", EN: "terminal"}}, {name: "number", title: report.Text{FR: "écriture", EN: "entry"}},
				{name: "liable", title: report.Text{FR: "supporté par", EN: "borne by"}}, {name: "note", title: report.Text{FR: "motif, gardé pour toujours", EN: "reason, kept for ever"}}},
			look: c.lookAtConflict,
			do: func(ctx context.Context, v url.Values, operator string) error {
				n, err := entryNumber(v.Get("number"))
				if err == nil {
					_, err = c.opt.Central.ActOnConflict(ctx, v.Get("terminal"), n, o.act, v.Get("liable"), v.Get("note"), operator)
				}
				return err
			},
			back: func(v url.Values) (string, []string) {
				return (&url.URL{Path: "/conflict/" + v.Get("terminal") + "/" + v.Get("number")}).Path, nil
			}})
	}
}

// entryNumber reads a ledger number as lists show it.
func entryNumber(text string) (n validate.EntryNumber, err error) {
	if _, err := fmt.Sscanf(text, "%d-%d", &n.Epoch, &n.Seq); err != nil || n.Epoch < 1 || n.Seq < 1 {
		return n, report.Wrongf("%.40q : il faut un numéro d'écriture comme 1-000017", "%.40q: want a ledger number like 1-000017", text)
	}
	return n, nil
}

func (c *console) lookAtConflict(ctx context.Context, s sheet, v url.Values) (touched, error) {
	var t touched
	n, err := entryNumber(v.Get("number"))
	if err != nil {
		return t, err
	}
	if strings.TrimSpace(v.Get("note")) == "" {
		return t, report.Wrongf("dites pourquoi : le motif est gardé", "say why: the reason is kept")
	}
	file, err := c.opt.Central.ConflictFile(ctx, v.Get("terminal"), n)
	if err != nil {
		return t, err
	}
	t.Lines = []string{fmt.Sprintf(s.T("Ticket %s, %s, conflit %s. Le terminal %s apprend par son fil comment il est réglé.", "Ticket %s, %s, conflict %s. Terminal %s hears by its feed how it is settled."),
		s.TicketOf(file.Conflict), s.AmountOf(file.Conflict), s.ConflictState(file.Conflict), file.Terminal)}
	t.Heads = []string{"terminal", s.T("écriture", "entry"), s.T("créditée", "credited"), s.T("actes jusqu'ici", "acts so far")}
	for _, e := range file.Evidence {
		credited := s.T("non", "no")
		if e.Credited {
			credited = s.T("oui", "yes")
		}
		t.Rows = append(t.Rows, []string{e.Terminal, e.Number, credited, fmt.Sprint(len(file.Steps))})
	}
	t.Notes, err = c.silentNote(ctx, s, []string{file.Terminal})
	return t, err
}

// conflictsShown are those of a page.
const conflictsShown = 200

type conflictsView struct {
	sheet
	Conflict        []central.Conflict
	State, Terminal string
	Next            string // an address, "" at the end
	Counts          []chip
}

func (c *console) showConflicts(w http.ResponseWriter, r *http.Request) {
	v := conflictsView{sheet: c.sheet(r, report.Text{FR: "Conflits", EN: "Conflicts"})}
	ctx, cancel := context.WithTimeout(r.Context(), readWithin)
	defer cancel()
	values, err := onlyKeys(r.URL.RawQuery, "state", "terminal", "after")
	states := []central.ConflictState{central.ConflictOpen, central.ConflictInquiry, central.ConflictSettled}
	if err == nil {
		v.State, v.Terminal = values.Get("state"), values.Get("terminal")
		if v.State != "" && !slices.Contains(states, central.ConflictState(v.State)) {
			err = report.Wrongf("état %.40q : il y a %v", "state %.40q: want one of %v", v.State, states)
		}
	}
	var page central.ConflictPage
	if err == nil {
		page, err = c.opt.Central.ConflictPage(ctx, central.ConflictQuery{State: central.ConflictState(v.State), Terminal: v.Terminal, After: values.Get("after"), Limit: conflictsShown})
	}
	if err != nil {
		v.Problem = c.told(r, err)
	}
	v.Conflict = page.List
	all := 0
	for _, n := range page.Counts {
		all += n
	}
	v.Counts = []chip{{Key: "all", Title: v.T("en tout", "in all"), Count: all, Address: v.Link("/conflicts", "terminal", v.Terminal), On: v.State == ""}}
	for _, state := range states {
		on := v.State == string(state)
		v.Counts = append(v.Counts, chip{string(state), v.ConflictState(central.Conflict{State: state}), page.Counts[state], v.Link("/conflicts", "terminal", v.Terminal, "state", string(state)), on})
	}
	if page.Next != "" {
		v.Next = v.Link("/conflicts", "terminal", v.Terminal, "state", v.State, "after", page.Next)
	}
	c.render(w, r, statusOf(err), "conflicts.html", v)
}

// proof is one side of a conflict as people read it: what its entry says, and what proves it.
type proof struct {
	central.Evidence
	Time, Operator, Entered, FirstCheck string // by the device's clock, a hint
	Kind                                string
	Minor                               int64
	Currency                            string
	Tier                                int
	Claim                               bool // the fields above are known
	Line                                string
}

type conflictView struct {
	sheet
	File   central.ConflictFile
	Proofs []proof
	Liable []string
	Proven string // address of the proofs
}

// readConflict reads the file that a request's path names.
func (c *console) readConflict(ctx context.Context, r *http.Request) (central.ConflictFile, error) {
	if _, err := onlyKeys(r.URL.RawQuery); err != nil {
		return central.ConflictFile{}, err
	}
	n, err := entryNumber(r.PathValue("number"))
	if err != nil {
		return central.ConflictFile{}, err
	}
	return c.opt.Central.ConflictFile(ctx, r.PathValue("terminal"), n)
}

func (c *console) showConflict(w http.ResponseWriter, r *http.Request) {
	v := conflictView{sheet: c.sheet(r, report.Text{FR: "Conflit", EN: "Conflict"}), Liable: central.Liable()}
	ctx, cancel := context.WithTimeout(r.Context(), readWithin)
	defer cancel()
	file, err := c.readConflict(ctx, r)
	if err != nil {
		c.refuse(w, r, statusOf(err), c.told(r, err))
		return
	}
	v.File = file
	for _, e := range file.Evidence {
		v.Proofs = append(v.Proofs, readProof(e))
	}
	v.Proven = r.URL.Path + "/proofs.json"
	c.render(w, r, http.StatusOK, "conflict.html", v)
}

// readProof reads what an entry says. One that an older or newer program wrote otherwise is
// shown by its hash alone: it is proven all the same.
func readProof(e central.Evidence) proof {
	p := proof{Evidence: e}
	if len(e.Lines) == 0 {
		return p
	}
	entry, err := ledger.ParseEntry([]byte(e.Lines[0]))
	if err != nil {
		return p
	}
	p.Time, p.Kind = entry.Time, string(entry.Kind)
	claim, err := entry.Claim()
	if err != nil {
		return p
	}
	p.Claim, p.Minor, p.Currency, p.Tier, p.Operator, p.Entered, p.FirstCheck = true, claim.AmountMinor, claim.Currency, claim.Tier, claim.Operator, string(claim.Entered), claim.FirstCheck
	return p
}

// exportConflict gives the proofs themselves, which need nothing of central's but its key.
func (c *console) exportConflict(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readWithin)
	defer cancel()
	file, err := c.readConflict(ctx, r)
	var text []byte
	if err == nil {
		text, err = json.MarshalIndent(file, "", "  ")
	}
	if err != nil {
		http.Error(w, c.told(r, err), statusOf(err))
		return
	}
	if !c.note(w, r, "export", "proofs of conflict "+file.Terminal+" "+file.Number) {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=\"conflict-%s-%s.json\"", file.Terminal, file.Number))
	_, _ = w.Write(append(text, '\n')) // an error here is the reader's connection
}
