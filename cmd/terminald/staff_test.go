package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"grattoir/device/control"
	"grattoir/device/terminal"
	"grattoir/sync/ledger"
	"grattoir/sync/ledger/people"
	"grattoir/validate"
	"grattoir/validate/ticket"
)

// staffed is a shop where anne and max sign on, and which keeps a register. It returns the
// key that reads the register, which the shop does not have.
func staffed(t *testing.T) (*shop, people.RegisterSecretKey) {
	t.Helper()
	s := openShop(t)
	secret, public, err := people.GenerateRegisterKey()
	if err != nil {
		t.Fatal(err)
	}
	key, err := people.ParseRegisterSecretKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	config := "sign_on = true\nregister.key = \"register.pub\"\n" + strings.Replace(shopConfig, "claim_days = 30", "claim_days = 30\nidentity_total_over_minor = 3000\nconfirm_cash_total_minor = 3000", 1)
	for name, text := range map[string]string{"terminald.toml": config, "register.pub": public + "\n"} {
		if err := os.WriteFile(filepath.Join(s.Dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(s.Dir, "data"), 0o750); err != nil {
		t.Fatal(err)
	}
	staff, err := people.Open(t.Context(), people.Options{Path: filepath.Join(s.Dir, "data", "people.db"), Terminal: "T-1", Moment: func() ledger.Moment { return ledger.Moment{Boot: "x"} }})
	if err != nil {
		t.Fatal(err)
	}
	max, anne := pin(t, "9073"), pin(t, "4718")
	err = errors.Join(staff.Add(t.Context(), people.Owner(), people.Operator{ID: "max", Name: "Max", Role: people.Manager}, max),
		staff.Add(t.Context(), people.Credentials{Operator: "max", PIN: max}, people.Operator{ID: "anne", Name: "Anne", Role: people.Clerk}, anne), staff.Close())
	if err != nil {
		t.Fatal(err)
	}
	return s, key
}

func pin(t *testing.T, text string) people.PIN {
	t.Helper()
	p, err := people.ParsePIN(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestDayAtACounterWithOperators is a day through the socket of the real program: sign-on,
// a batch to an identified winner, a reversal, a power cut, training, the closings, and
// slips for each.
func TestDayAtACounterWithOperators(t *testing.T) {
	s, key := staffed(t)
	s.start(t)
	ctx := deadline(t)
	a := s.scan(t, s.codes["2000"][0])
	var denied *terminal.Denied
	if _, err := s.Client.Pay(ctx, a.ID, true); !errors.As(err, &denied) || denied.Code == "" || denied.ClerkFR == "" {
		t.Fatalf("paid before anybody signed on: %v", err)
	}
	if _, err := s.Client.SignOn(ctx, "anne", "1111", 15000); !errors.As(err, &denied) {
		t.Fatalf("a wrong PIN: %v", err)
	}
	if shift, err := s.Client.SignOn(ctx, "anne", "4718", 15000); err != nil || shift.Number != 1 {
		t.Fatal(shift, err)
	}

	// Two winners of one customer: 40 euros want the cash counted and the winner identified.
	batch := s.batch(t, s.codes["2000"][0], s.codes["2000"][1], s.codes["0"][0])
	if batch.Prizes != 2 || batch.TotalMinor != 4000 || len(batch.Needs) != 2 {
		t.Fatalf("%+v", batch)
	}
	if b, err := s.Client.PayBatch(ctx, batch.ID, true, nil); !errors.Is(err, terminal.ErrNeeds) || b.Error != "needs" {
		t.Fatalf("paid without an identity: %v", err)
	}
	if _, err := s.Client.PayBatch(ctx, batch.ID, true, &validate.Identification{Surname: "Martin"}); !errors.As(err, &denied) {
		t.Fatalf("half an identity: %v", err)
	}
	winner := &validate.Identification{Surname: "Martin", FirstNames: "Jeanne", Born: "1970-05-12", BirthPlace: "Brest", Address: "1 rue de Siam, 29200 Brest",
		Document: "passport", Number: "12AB34567", IssuedBy: "préfecture du Finistère", ValidTo: "2031-01-31"}
	paid, err := s.Client.PayBatch(ctx, batch.ID, true, winner)
	if err != nil || !paid.Paid || paid.Tickets[0].Receipt == nil || paid.Tickets[1].Receipt == nil || paid.Tickets[2].Receipt != nil {
		t.Fatalf("%+v %v", paid, err)
	}
	for range 2 {
		s.slip(t, "REÇU DE PAIEMENT", "Opérateur", "anne")
	}
	if err := s.Client.EndBatch(ctx, batch.ID); err != nil {
		t.Fatal(err)
	}

	// One of them is to be taken back; then the power goes.
	if _, err := s.Client.Reverse(ctx, "1-000002", validate.PlayerLeft, "", "anne", "4718"); !errors.As(err, &denied) {
		t.Fatalf("a clerk allowed it himself: %v", err)
	}
	if r, err := s.Client.Reverse(ctx, "1-000002", validate.PlayerLeft, "", "max", "9073"); err != nil || r.State != validate.ReversalRequested {
		t.Fatal(r, err)
	}
	s.Crash()
	s.start(t)
	if st, err := s.Client.Status(ctx); err != nil || st.Session == nil || !st.Session.Locked || st.Session.Operator != "anne" {
		t.Fatalf("after a power cut: %+v %v", st.Session, err)
	}
	list, err := s.Client.History(ctx)
	if err != nil || len(list) != 3 || list[0].Reversal == nil || list[1].Claim == nil || list[2].Claim.Number != "1-000002" {
		t.Fatalf("history: %+v %v", list, err)
	}
	if err := s.Client.Unlock(ctx, "4718"); err != nil {
		t.Fatal(err)
	}

	if err := s.Client.SetTraining(ctx, true, "max", "9073"); err != nil {
		t.Fatal(err)
	}
	if v, err := s.Client.Pay(ctx, s.scan(t, s.codes["2000"][2]).ID, true); err != nil || v.Stage != terminal.Trained || v.Receipt != nil {
		t.Fatalf("%+v %v", v, err)
	}
	if err := s.Client.SetTraining(ctx, false, "max", "9073"); err != nil {
		t.Fatal(err)
	}

	x, err := s.Client.X(ctx, validate.ShiftClosing, true)
	if err != nil || x.Totals[0].Paid.Money != 4000 || x.Totals[0].Requested.Count != 1 || x.Cash != 11000 {
		t.Fatalf("%+v %v", x, err)
	}
	s.slip(t, "RAPPORT X SERVICE", "110")
	if _, err := s.Client.Z(ctx, validate.DayClosing, "max", "9073"); err == nil {
		t.Fatal("a day was closed over an open shift")
	}
	if z, err := s.Client.SignOff(ctx, "", ""); err != nil || z.Number != 1 || z.Operator != "anne" {
		t.Fatal(z, err)
	}
	s.slip(t, "CLÔTURE Z SERVICE", "anne")
	if z, err := s.Client.Z(ctx, validate.DayClosing, "max", "9073"); err != nil || z.Perpetual[0].Paid.Money != 4000 {
		t.Fatal(z, err)
	}
	s.slip(t, "CLÔTURE Z JOUR", "Total perpétuel")
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if c := s.journal(t); c.Claims != 2 || c.Money != 4000 {
		t.Errorf("%+v", c)
	}
	s.auditsAreNoted(t)
	s.onlyCentralReads(t, key, winner)
}

// auditsAreNoted: the journal's last closing covers what the operators did before it, and
// the record of the winner.
func (s *shop) auditsAreNoted(t *testing.T) {
	t.Helper()
	i, err := ledger.Inspect(t.Context(), filepath.Join(s.Dir, "data", "ledger.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close()
	noted, err := i.AuditHeads(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"people.db", "register.db"} {
		c, err := people.CheckAudit(t.Context(), filepath.Join(s.Dir, "data", name), "T-1", noted)
		if err != nil || c.Broken != nil || c.Noted == 0 || c.Noted != c.Lines {
			t.Errorf("%s: %+v %v", name, c, err)
		}
	}
}

// batch scans tickets into a batch.
func (s *shop) batch(t *testing.T, codes ...ticket.Code) control.Batch {
	t.Helper()
	if _, err := s.Client.BeginBatch(deadline(t)); err != nil {
		t.Fatal(err)
	}
	for _, c := range codes {
		if _, err := s.Client.Check(deadline(t), c.Digits(), false); err != nil {
			t.Fatal(err)
		}
	}
	b, err := s.Client.Batch(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// slip waits for the next slip, which must hold the texts.
func (s *shop) slip(t *testing.T, want ...string) {
	t.Helper()
	p, err := s.Paper.Next(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range want {
		if !strings.Contains(p.Text(), w) {
			t.Fatalf("the slip lacks %q:\n%s", w, p.Text())
		}
	}
}

// onlyCentralReads looks for the winner and the PINs in every file of the shop, and opens
// the record with central's key.
func (s *shop) onlyCentralReads(t *testing.T, key people.RegisterSecretKey, who *validate.Identification) {
	t.Helper()
	err := filepath.WalkDir(s.Dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		for _, secret := range []string{who.Surname, who.Number, who.BirthPlace, "4718", "9073"} {
			if len(secret) > 4 && bytes.Contains(text, []byte(secret)) || len(secret) == 4 && strings.HasSuffix(path, ".log") && bytes.Contains(text, []byte(secret)) {
				t.Errorf("%s holds %q in clear", filepath.Base(path), secret)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	public, err := os.ReadFile(filepath.Join(s.Dir, "register.pub"))
	if err != nil {
		t.Fatal(err)
	}
	shopKey, err := people.ParseRegisterKey(string(public))
	if err != nil {
		t.Fatal(err)
	}
	r, err := people.OpenRegister(context.Background(), people.RegisterOptions{Path: filepath.Join(s.Dir, "data", "register.db"), Terminal: "T-1", Key: shopKey,
		Moment: func() ledger.Moment { return ledger.Moment{Boot: "y", Mono: time.Second} }})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	sealed, err := r.Pending(t.Context(), 10)
	if err != nil || len(sealed) != 1 {
		t.Fatalf("%d records: %v", len(sealed), err)
	}
	if filing, err := key.Open(sealed[0]); err != nil || filing.Identity.Surname != who.Surname || len(filing.Payments) != 2 {
		t.Errorf("central reads %v", err)
	}
}
