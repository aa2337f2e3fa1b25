package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"grattoir/sync/central"
	"grattoir/sync/report"
	"grattoir/validate/money"
	"grattoir/validate/policy"
)

// policyPages show the limits that terminals pay by and prepare the next ones. A policy is
// signed where the lottery's key is, which is not here: the editor shows whom a draft
// touches and gives the file to sign, and the signed file is published in a second step.
func (c *console) policyPages() {
	c.page("GET /policies", everybody(), c.showPolicies)
	c.page("GET /policies/draft", acting(), c.showDraft)
	c.page("GET /policies/draft.toml", acting(), c.giveDraft)
	c.menu("/policies", everybody(), report.Text{FR: "Politiques", EN: "Policies"})
	back := func(url.Values) (string, []string) { return "/policies", nil }
	c.order(order{name: "policy-publish", title: report.Text{FR: "Publier la politique", EN: "Publish the policy"}, done: report.Text{FR: "La politique est publiée.", EN: "The policy is published."},
		fields: []field{{name: "signed", title: report.Text{FR: "texte signé", EN: "signed text"}, long: true}}, look: c.lookAtSigned,
		do: func(ctx context.Context, v url.Values, operator string) error {
			_, err := c.opt.Central.PublishPolicy(ctx, []byte(signedText(v)), operator)
			return err
		}, back: back})
	c.order(order{name: "policy-withdraw", title: report.Text{FR: "Retirer la politique", EN: "Withdraw the policy"}, done: report.Text{FR: "La politique est retirée.", EN: "The policy is withdrawn."},
		fields: []field{{name: "version", title: report.Text{FR: "version", EN: "version"}}}, look: c.lookAtWithdrawal,
		do: func(ctx context.Context, v url.Values, operator string) error {
			_, err := c.opt.Central.WithdrawPolicy(ctx, v.Get("version"), operator)
			return err
		}, back: back})
}

// signedText is a signed policy as a form carries it: forms end lines with CR LF.
func signedText(v url.Values) string {
	return strings.TrimRight(strings.ReplaceAll(v.Get("signed"), "\r\n", "\n"), "\n ") + "\n"
}

// limit is one line of a policy: its key in the file, its words, and its value.
type limit struct {
	Key    string
	Title  report.Text
	Amount bool // of money; in the file in minor units
	value  func(*policy.Policy) *int64
}

// limits are a policy's numbers, in the order of its file.
func limits() []limit {
	sum := func(of func(*policy.Policy) *money.Amount) func(*policy.Policy) *int64 {
		return func(p *policy.Policy) *int64 { return (*int64)(of(p)) }
	}
	return []limit{
		{"shop_limit_minor", report.Text{FR: "un point de vente paie jusqu'à", EN: "a shop pays up to"}, true, sum(func(p *policy.Policy) *money.Amount { return &p.ShopLimit })},
		{"confirm_cash_prize_minor", report.Text{FR: "un lot : confirmer la caisse dès", EN: "one prize: confirm the cash from"}, true, sum(func(p *policy.Policy) *money.Amount { return &p.ConfirmCashPrize })},
		{"confirm_cash_total_minor", report.Text{FR: "une série : confirmer la caisse dès", EN: "a batch: confirm the cash from"}, true, sum(func(p *policy.Policy) *money.Amount { return &p.ConfirmCashTotal })},
		{"identity_prize_minor", report.Text{FR: "identité dès", EN: "identity from"}, true, sum(func(p *policy.Policy) *money.Amount { return &p.IdentityPrize })},
		{"identity_total_over_minor", report.Text{FR: "identité, plusieurs lots, au-delà de", EN: "identity, several prizes, over"}, true, sum(func(p *policy.Policy) *money.Amount { return &p.IdentityTotalOver })},
		{"weak_limit_minor", report.Text{FR: "secrets courts payés sans le centre jusqu'à", EN: "short secrets paid without central up to"}, true, sum(func(p *policy.Policy) *money.Amount { return &p.WeakLimit })},
		{"allowance_claims", report.Text{FR: "franchise par terminal, paiements", EN: "allowance of a terminal, claims"}, false, func(p *policy.Policy) *int64 { return &p.AllowanceClaims }},
		{"allowance_minor", report.Text{FR: "franchise par terminal, montant", EN: "allowance of a terminal, money"}, true, sum(func(p *policy.Policy) *money.Amount { return &p.AllowanceMoney })},
		{"booked_risk_minor", report.Text{FR: "risque assumé jusqu'à", EN: "booked risk up to"}, true, sum(func(p *policy.Policy) *money.Amount { return &p.BookedRisk })},
	}
}

// limitLine is a limit of a draft beside the one in force.
type limitLine struct {
	Key, Title, Value, Now, Next string
	Changed                      bool
}

type policiesView struct {
	sheet
	List  []central.Policy
	Force string // version in force, "" for none
	Lines []limitLine
	Draft policy.Policy
}

// Slips are the choices of slips of checks; that of the draft is the changed one.
func (v policiesView) Slips() []limitLine {
	var list []limitLine
	for _, r := range []policy.ResultSlips{"", policy.SlipsCentre, policy.SlipsAsked, policy.SlipsEach} {
		list = append(list, limitLine{Key: string(r), Title: v.slips(policy.Policy{ResultSlips: r}), Changed: v.Draft.ResultSlips == r})
	}
	return list
}

// inForce is the policy that holds at the page's time; none is the zero Policy.
func (c *console) inForce(ctx context.Context, s sheet) (policy.Policy, error) {
	set, err := report.Policies(ctx, c.db)
	if err != nil {
		return policy.Policy{}, err
	}
	p, err := set.InForce(s.now)
	if errors.Is(err, policy.ErrNone) || errors.Is(err, policy.ErrGap) {
		return policy.Policy{}, nil
	}
	return p, err
}

func (c *console) showPolicies(w http.ResponseWriter, r *http.Request) {
	v := policiesView{sheet: c.sheet(r, report.Text{FR: "Politiques", EN: "Policies"})}
	ctx, cancel := context.WithTimeout(r.Context(), readWithin)
	defer cancel()
	_, err := onlyKeys(r.URL.RawQuery)
	if err == nil {
		v.List, err = c.opt.Central.Policies(ctx)
	}
	if err == nil {
		v.Draft, err = c.inForce(ctx, v.sheet)
	}
	if err != nil {
		v.Problem = c.told(r, err)
	}
	v.Force = v.Draft.Version
	v.Lines = v.limitLines(v.Draft, v.Draft)
	v.Draft.Version, v.Draft.ValidFrom, v.Draft.ValidTo = "", policy.DayInParis(v.now).Add(7), policy.Date{}
	if v.Draft.Currency == "" {
		v.Draft.Currency, v.Draft.ClaimDays = "EUR", 30
	}
	c.render(w, r, statusOf(err), "policies.html", v)
}

func (s sheet) limitLines(now, next policy.Policy) []limitLine {
	var list []limitLine
	for _, l := range limits() {
		a, b := *l.value(&now), *l.value(&next)
		write := func(n int64, p policy.Policy) string {
			switch {
			case p.Version == "":
				return "–"
			case n == 0 && strings.HasPrefix(l.Key, "allowance"):
				return s.T("sans limite propre", "no bound of its own")
			case n == 0:
				return s.T("jamais", "never")
			case l.Amount:
				return s.Money(n, p.Currency)
			}
			return count(n)
		}
		list = append(list, limitLine{l.Key, l.Title.In(s.lang), strconv.FormatInt(b, 10), write(a, now), write(b, next), a != b})
	}
	return list
}

// otherLines are what a policy says besides its limits.
func (s sheet) otherLines(now, next policy.Policy) []limitLine {
	var list []limitLine
	add := func(fr, en string, write func(policy.Policy) string) {
		line := limitLine{Title: s.T(fr, en), Now: "–", Next: write(next)}
		if now.Version != "" {
			line.Now = write(now)
		}
		line.Changed = line.Now != line.Next
		list = append(list, line)
	}
	rate := func(parts int) string { return s.Share(int64(parts), policy.WholeRate) }
	add("délai de réclamation, jours", "claim period, days", func(p policy.Policy) string { return strconv.Itoa(p.ClaimDays) })
	add("monnaie", "currency", func(p policy.Policy) string { return p.Currency })
	add("risque supporté par", "risk borne by", func(p policy.Policy) string { return orDash(p.BookedRiskParty) })
	add("commission sur ventes", "commission on sales", func(p policy.Policy) string { return rate(p.CommissionSale) })
	add("commission sur lots", "commission on prizes", func(p policy.Policy) string { return rate(p.CommissionPaid) })
	add("bons de contrôle", "slips of checks", s.slips)
	return list
}

// slips words for which checks a policy has a slip printed.
func (s sheet) slips(p policy.Policy) string {
	switch p.ResultSlips {
	case policy.SlipsEach:
		return s.T("à chaque contrôle", "with every check")
	case policy.SlipsAsked:
		return s.T("sur demande, tout ticket", "when asked for, any ticket")
	case policy.SlipsCentre:
		return s.T("sur demande, tickets pour le centre", "when asked for, tickets for the centre")
	}
	return s.T("selon le terminal", "as the terminal is set")
}

// draftKeys are the fields of the editor.
func draftKeys() []string {
	keys := []string{"version", "valid_from", "valid_to", "currency", "claim_days", "booked_risk_party", "commission_sale", "commission_paid", "result_slips"}
	for _, l := range limits() {
		keys = append(keys, l.Key)
	}
	return keys
}

// parseDraft reads a policy from the editor's fields, and refuses what policy files refuse.
func parseDraft(v url.Values) (policy.Policy, error) {
	var p policy.Policy
	var errs []error
	number := func(key string) int64 {
		text := strings.TrimSpace(v.Get(key))
		if text == "" {
			return 0
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s = %.20q: want a whole number", key, text))
		}
		return n
	}
	date := func(key string) policy.Date {
		text := strings.TrimSpace(v.Get(key))
		if text == "" {
			return policy.Date{}
		}
		d, err := policy.ParseDate(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", key, err))
		}
		return d
	}
	p.Version, p.Currency, p.BookedRiskParty = strings.TrimSpace(v.Get("version")), strings.TrimSpace(v.Get("currency")), strings.TrimSpace(v.Get("booked_risk_party"))
	p.ValidFrom, p.ValidTo = date("valid_from"), date("valid_to")
	p.ClaimDays, p.CommissionSale, p.CommissionPaid = int(number("claim_days")), int(number("commission_sale")), int(number("commission_paid"))
	p.ResultSlips = policy.ResultSlips(v.Get("result_slips"))
	for _, l := range limits() {
		*l.value(&p) = number(l.Key)
	}
	if len(errs) == 0 {
		errs = append(errs, p.ValidateSigned())
	}
	if err := errors.Join(errs...); err != nil {
		return p, report.Wrongf("ce projet ne vaut pas : %v", "this draft does not count: %v", err)
	}
	return p, nil
}

// draftFile is a draft as central policy sign reads it.
func draftFile(p policy.Policy) string {
	var b strings.Builder
	to := ""
	if !p.ValidTo.IsZero() {
		to = p.ValidTo.String()
	}
	fmt.Fprintf(&b, "version = %q\nvalid_from = %q\nvalid_to = %q\ncurrency = %q\nclaim_days = %d\n", p.Version, p.ValidFrom.String(), to, p.Currency, p.ClaimDays)
	for _, l := range limits() {
		fmt.Fprintf(&b, "%s = %d\n", l.Key, *l.value(&p))
	}
	fmt.Fprintf(&b, "booked_risk_party = %s\n", strconv.QuoteToGraphic(p.BookedRiskParty))
	if p.CommissionSale != 0 || p.CommissionPaid != 0 { // without them an older terminal reads it too
		fmt.Fprintf(&b, "commission_sale = %d\ncommission_paid = %d\n", p.CommissionSale, p.CommissionPaid)
	}
	if p.ResultSlips != "" {
		fmt.Fprintf(&b, "result_slips = %q\n", string(p.ResultSlips))
	}
	return b.String()
}

// prizesTouched are the tiers whose payment a policy changes, and how many of their prizes
// are left: who decides about a draft thinks in prizes, not in limits.
func (c *console) prizesTouched(ctx context.Context, s sheet, now, next policy.Policy) (rows [][]string, err error) {
	list, err := c.readBlocks(ctx, report.Filter{Zone: c.opt.Zone}, s.now)
	if err != nil {
		return nil, err
	}
	how := func(p policy.Policy, t tierLine, currency string) string {
		switch a := money.Amount(t.Prize); {
		case p.Version == "":
			return s.T("selon la configuration", "as configured")
		case p.AboveShopLimit(a, currency):
			return s.T("au centre", "at the centre")
		case p.IdentityPrize > 0 && a >= p.IdentityPrize:
			return s.T("au comptoir, avec identité", "at the counter, with identity")
		case p.ConfirmsCash(a):
			return s.T("au comptoir, caisse confirmée", "at the counter, cash confirmed")
		}
		return s.T("au comptoir", "at the counter")
	}
	for _, b := range list {
		for _, t := range b.Tiers {
			if was, is := how(now, t, b.Currency), how(next, t, b.Currency); was != is && t.Left > 0 {
				rows = append(rows, []string{fmt.Sprintf("%s %s %s %d", b.Game, b.Emission, s.T("bloc", "block"), b.Number), s.Money(t.Prize, b.Currency), count(t.Left), was, is})
			}
		}
	}
	return rows, nil
}

func prizeHeads(s sheet) []string {
	return []string{s.T("bloc", "block"), s.T("lot", "prize"), s.T("restants", "left"), s.T("payé aujourd'hui", "paid now"), s.T("payé ensuite", "paid then")}
}

type draftView struct {
	sheet
	Lines    []limitLine
	Touched  touched
	File     string // "" where the draft is refused
	Download string
	Draft    policy.Policy
	Now      policy.Policy
}

// showDraft shows whom a draft touches. It changes nothing.
func (c *console) showDraft(w http.ResponseWriter, r *http.Request) {
	v := draftView{sheet: c.sheet(r, report.Text{FR: "Projet de politique", EN: "Draft of a policy"})}
	ctx, cancel := context.WithTimeout(r.Context(), readWithin)
	defer cancel()
	values, err := onlyKeys(r.URL.RawQuery, draftKeys()...)
	if err == nil {
		v.Draft, err = parseDraft(values)
	}
	if err == nil {
		err = c.fillDraft(ctx, &v)
	}
	if err != nil {
		v.Problem = c.told(r, err)
	} else {
		v.File, v.Download = draftFile(v.Draft), "/policies/draft.toml?"+r.URL.RawQuery
	}
	c.render(w, r, statusOf(err), "draft.html", v)
}

func (c *console) fillDraft(ctx context.Context, v *draftView) (err error) {
	if v.Now, err = c.inForce(ctx, v.sheet); err != nil {
		return err
	}
	v.Lines = append(v.limitLines(v.Now, v.Draft), v.otherLines(v.Now, v.Draft)...)
	v.Touched, err = c.reachOf(ctx, v.sheet, v.Now, v.Draft)
	return err
}

// reachOf is whom a policy touches: every terminal, and the prizes it treats otherwise.
func (c *console) reachOf(ctx context.Context, s sheet, now, next policy.Policy) (touched, error) {
	page, err := report.Fleet(ctx, c.db, report.FleetQuery{Limit: 1}, s.now)
	if err != nil {
		return touched{}, err
	}
	t := audience(s, page)
	t.Heads = prizeHeads(s)
	if t.Rows, err = c.prizesTouched(ctx, s, now, next); err != nil {
		return touched{}, err
	}
	if now.Version != "" && !policy.Newer(next.Version, now.Version) {
		t.Notes = append(t.Notes, fmt.Sprintf(s.T("La version %s n'est pas plus récente que %s, qui vaut : elle ne la remplacerait pas.", "Version %s is not newer than %s, which holds: it would not take its place."), next.Version, now.Version))
	}
	return t, nil
}

// giveDraft gives the file to be signed.
func (c *console) giveDraft(w http.ResponseWriter, r *http.Request) {
	values, err := onlyKeys(r.URL.RawQuery, draftKeys()...)
	var p policy.Policy
	if err == nil {
		p, err = parseDraft(values)
	}
	if err != nil {
		http.Error(w, c.told(r, err), statusOf(err))
		return
	}
	w.Header().Set("Content-Type", "application/toml; charset=utf-8")
	w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=\"%s.toml\"", p.Version))
	_, _ = w.Write([]byte(draftFile(p))) // an error here is the reader's connection
}

func (c *console) lookAtSigned(ctx context.Context, s sheet, v url.Values) (touched, error) {
	text, _, ok := strings.Cut(signedText(v), "\n\n")
	if !ok {
		return touched{}, report.Wrongf("ce n'est pas une politique signée", "this is no signed policy")
	}
	next, err := policy.Parse(text + "\n")
	if err != nil {
		return touched{}, report.Wrongf("cette politique ne vaut pas : %v", "this policy does not count: %v", err)
	}
	now, err := c.inForce(ctx, s)
	if err != nil {
		return touched{}, err
	}
	t, err := c.reachOf(ctx, s, now, next)
	t.Lines = append([]string{fmt.Sprintf(s.T("Politique %s, à partir du %s.", "Policy %s, from %s on."), next.Version, next.ValidFrom)}, t.Lines...)
	return t, err
}

func (c *console) lookAtWithdrawal(ctx context.Context, s sheet, v url.Values) (touched, error) {
	set, err := report.Policies(ctx, c.db)
	if err != nil {
		return touched{}, err
	}
	now, err := set.InForce(s.now)
	if err != nil {
		now = policy.Policy{}
	}
	if !slices.ContainsFunc(set.List(), func(p policy.Policy) bool { return p.Version == v.Get("version") }) {
		return touched{}, fmt.Errorf("policy %.64q: %w", v.Get("version"), central.ErrNotFound)
	}
	set.Withdraw(v.Get("version"))
	next, err := set.InForce(s.now)
	if err != nil {
		next = policy.Policy{}
	}
	t, err := c.reachOf(ctx, s, now, next)
	if err != nil {
		return t, err
	}
	t.Notes = nil
	after := next.Version
	if after == "" {
		after = s.T("la configuration de chaque terminal", "each terminal's configuration")
	}
	t.Lines = append(t.Lines, fmt.Sprintf(s.T("Ensuite vaut : %s.", "What holds then: %s."), after))
	return t, nil
}
