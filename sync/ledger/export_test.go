package ledger

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"grattoir/validate"
)

func exported(t testing.TB, l *Ledger, r Range) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := l.Export(context.Background(), &b, r); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// signedBook is an open ledger with signatures of every sort.
func signedBook(t testing.TB, s signers) *Ledger {
	t.Helper()
	opt := options(t.TempDir())
	if err := os.WriteFile(opt.Path, signedLedger(t, s), 0o600); err != nil {
		t.Fatal(err)
	}
	return openTest(t, opt)
}

// plainCheck is a second reading of EXPORT.md, which shares no code with the package: it
// gives how many entries the export has and up to where central and the device signed.
func plainCheck(text []byte, device *ecdsa.PublicKey, central string) (entries, acked, signed int, err error) {
	all := bytes.SplitAfter(text, []byte("\n"))
	all = all[:len(all)-1]
	hashes := map[string]string{}
	last := strings.Repeat("0", 64)
	for _, line := range all[:len(all)-1] {
		line = bytes.TrimSuffix(line, []byte("\n"))
		var l map[string]map[string]any
		if bytes.HasPrefix(line, []byte(`{"v":1,`)) {
			var e struct {
				Epoch, Seq int
				Prev       string
			}
			if err := json.Unmarshal(line, &e); err != nil {
				return 0, 0, 0, err
			}
			if e.Seq != entries+1 || e.Prev != last {
				return 0, 0, 0, fmt.Errorf("the chain breaks at entry %d", e.Seq)
			}
			sum := sha256.Sum256(line)
			last = hex.EncodeToString(sum[:])
			entries++
			hashes[fmt.Sprintf("epoch %d\nseq %d\nhash %s\n", e.Epoch, e.Seq, last)] = last
			continue
		}
		if err := json.Unmarshal(line, &l); err != nil {
			return 0, 0, 0, err
		}
		if h := l["head"]; h != nil {
			text := h["text"].(string)
			sum := sha256.Sum256([]byte(text))
			raw, err := base64.StdEncoding.DecodeString(h["signature"].(string))
			if _, place, _ := strings.Cut(strings.TrimPrefix(text, "grattoir head v1\n"), "\n"); err != nil || hashes[place] == "" || !ecdsa.VerifyASN1(device, sum[:], raw) {
				return 0, 0, 0, fmt.Errorf("head %v: %v", h["seq"], err)
			}
			signed = int(h["seq"].(float64))
		}
		if a := l["ack"]; a != nil {
			text, signature, _ := strings.Cut(a["note"].(string), "\n\n")
			text += "\n"
			fields := strings.Fields(signature)
			raw, err := base64.StdEncoding.DecodeString(fields[2])
			key, err2 := base64.StdEncoding.DecodeString(strings.SplitN(central, "+", 3)[2])
			if err := errors.Join(err, err2); err != nil || !ed25519.Verify(key[1:], []byte(text), raw[4:]) {
				return 0, 0, 0, fmt.Errorf("ack: %v", err)
			}
			parts := strings.SplitAfter(text, "\n")
			if hashes[strings.Join(parts[2:5], "")] == "" {
				return 0, 0, 0, errors.New("central signed what is not in the chain")
			}
			acked, err = strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(parts[3], "seq "), "\n"))
			if err != nil {
				return 0, 0, 0, err
			}
		}
	}
	var end struct{ End struct{ SHA256 string } }
	sum := sha256.Sum256(bytes.Join(all[:len(all)-1], nil))
	if err := json.Unmarshal(all[len(all)-1], &end); err != nil || end.End.SHA256 != hex.EncodeToString(sum[:]) {
		return 0, 0, 0, fmt.Errorf("the end is not of this file: %v", err)
	}
	return entries, acked, signed, nil
}

func TestExportIsCheckedByATextWrittenFromItsFormatAlone(t *testing.T) {
	s := newSigners(t)
	text := exported(t, signedBook(t, s), Range{})
	entries, acked, signed, err := plainCheck(text, &s.device.PublicKey, s.public)
	if err != nil || entries != signedEntries || acked != signedAck || signed != signedHead {
		t.Fatalf("%d entries, central up to %d, device up to %d: %v\n%s", entries, acked, signed, err, text)
	}
	p, err := VerifyExport(context.Background(), bytes.NewReader(text), s.Keys)
	if err != nil || p.Entries != signedEntries || p.Claims != signedEntries || p.Money != 2000*signedEntries || p.Epochs[0].Covered() != signedHead || p.Epochs[0].Heads != 2 {
		t.Fatalf("%+v %v", p, err)
	}
}

// TestCommandsOfTheFormatsPageWork runs what EXPORT.md tells people to type.
func TestCommandsOfTheFormatsPageWork(t *testing.T) {
	for _, tool := range []string{"bash", "jq", "openssl", "sha256sum", "awk"} {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatal(err)
			}
			t.Skipf("NOT TESTED: %v", err)
		}
	}
	s := newSigners(t)
	dir := t.TempDir()
	certificate, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "T-1"}},
		&x509.Certificate{}, &s.device.PublicKey, s.device)
	if err != nil {
		t.Fatal(err)
	}
	text := exported(t, signedBook(t, s), Range{})
	page, err := os.ReadFile("EXPORT.md")
	if err != nil {
		t.Fatal(err)
	}
	var script strings.Builder
	for _, block := range strings.Split(string(page), "```sh\n")[1:] {
		commands, _, _ := strings.Cut(block, "```")
		script.WriteString(commands)
	}
	for name, content := range map[string][]byte{"device.pem": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}), "central.pub": []byte(s.public + "\n"),
		"check.sh": []byte(script.String())} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check := func(text []byte) string {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "journal.jsonl"), text, 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("bash", "check.sh")
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Logf("%v", err)
		}
		return string(out)
	}
	out := check(text)
	for _, want := range []string{"file: whole", fmt.Sprintf("chain: %d entries", signedEntries), fmt.Sprintf("device: signed up to 1-%d\n", signedClosing),
		fmt.Sprintf("device: signed up to 1-%d\n", signedHead), fmt.Sprintf("central: countersigned up to 1-%d\n", signedAck)} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	out = check(bytes.Replace(text, []byte(`"ticket":3,`), []byte(`"ticket":4,`), 1))
	for _, never := range []string{"file: whole", "chain: 14", "device: signed up to 1-5\n "} {
		if strings.Contains(out, never) {
			t.Errorf("%q of a changed file:\n%s", never, out)
		}
	}
	out = check(bytes.Replace(text, []byte(`"signature":"ME`), []byte(`"signature":"MF`), -1))
	if strings.Contains(out, "device: signed") {
		t.Errorf("changed signatures:\n%s", out)
	}
}

func TestPartOfAJournalHasTheSignaturesOverWhatIsInIt(t *testing.T) {
	s := newSigners(t)
	l := signedBook(t, s)
	number := func(seq int64) validate.EntryNumber { return validate.EntryNumber{Epoch: 1, Seq: seq} }
	for name, c := range map[string]struct {
		r                            Range
		entries, central, head, sigs int64
	}{
		"the middle":     {Range{number(6), number(9)}, 4, signedAck, 0, 0},
		"up to a head":   {Range{To: number(signedClosing)}, signedClosing, 0, signedClosing, 1},
		"from an entry":  {Range{From: number(8)}, 7, signedAck, signedHead, 1},
		"a single entry": {Range{number(3), number(3)}, 1, 0, 0, 0},
		"past the end":   {Range{number(13), number(99)}, 2, 0, 0, 0},
	} {
		text := exported(t, l, c.r)
		p, err := VerifyExport(context.Background(), bytes.NewReader(text), s.Keys)
		if err != nil || p.Entries != c.entries || p.Epochs[0].Central.Seq != c.central || p.Epochs[0].Device.Seq != c.head || int64(p.Epochs[0].Heads) != c.sigs {
			t.Errorf("%s: %+v %v", name, p, err)
		}
		if _, err := Import(context.Background(), bytes.NewReader(text), options(t.TempDir()), ImportOptions{Keys: s.Keys}); !errors.Is(err, ErrExport) {
			t.Errorf("%s was imported: %v", name, err)
		}
	}
	if err := l.Export(context.Background(), &bytes.Buffer{}, Range{From: number(99)}); !errors.Is(err, ErrNotFound) {
		t.Errorf("nothing: %v", err)
	}
}

// TestImportedJournalIsExportedWithTheSameBytesAndPaysOn, and pays nothing twice.
func TestImportedJournalIsExportedWithTheSameBytesAndPaysOn(t *testing.T) {
	ctx := context.Background()
	s := newSigners(t)
	rapid.Check(t, func(rt *rapid.T) {
		opt := options(memory(t))
		opt.Sign = s.sign
		l := openTest(t, opt)
		count := rapid.IntRange(0, 12).Draw(rt, "claims")
		for i := range count {
			r := record(t, l, claim(t, i))
			switch rapid.IntRange(0, 4).Draw(rt, "then") {
			case 0:
				if err := l.Mark(ctx, r.Number, validate.Printed); err != nil {
					rt.Fatal(err)
				}
			case 1:
				if err := l.SignHead(ctx, rapid.SampledFrom([]HeadReason{HeadClosing, HeadUpload}).Draw(rt, "why")); err != nil {
					rt.Fatal(err)
				}
			case 2:
				s.ack(t, l, int64(i+1), noon)
			}
		}
		text := exported(t, l, Range{})
		unsent, allowance := must(l.Unsent(ctx)), l.Allowance()
		if err := l.Close(); err != nil {
			rt.Fatal(err)
		}
		raise := rapid.Bool().Draw(rt, "raise")
		opt = options(memory(t))
		if _, err := Import(ctx, bytes.NewReader(text), opt, ImportOptions{Keys: s.Keys, RaiseEpoch: raise}); err != nil {
			rt.Fatalf("%v\n%s", err, text)
		}
		l = openTest(t, opt)
		if again := exported(t, l, Range{}); !raise && !bytes.Equal(again, text) {
			rt.Fatalf("exported as\n%sand from the import as\n%s", text, again)
		}
		if u := must(l.Unsent(ctx)); !raise && u != unsent || raise && u.Claims != 0 || l.Allowance() != allowance {
			rt.Fatalf("unsent %+v, was %+v; allowance %+v, was %+v", u, unsent, l.Allowance(), allowance)
		}
		if waiting := must(l.Unprinted(ctx)); len(waiting) != 0 {
			rt.Fatalf("%d slips would be printed by themselves", len(waiting))
		}
		for i := range count {
			again := claim(t, i)
			again.ID = strings.Repeat("f", 32)
			if r, err := l.Record(ctx, again); !errors.Is(err, ErrPaid) || r.Slip.Game != "Bingo" {
				rt.Fatalf("ticket %d is paid again: %v", i, err)
			}
		}
		r := record(t, l, claim(t, 700))
		if want := map[bool]validate.EntryNumber{false: {Epoch: 1, Seq: int64(count + 1)}, true: {Epoch: 2, Seq: 1}}[raise]; r.Number != want {
			rt.Fatalf("the next entry is %v, want %v", r.Number, want)
		}
		if c, err := l.Verify(ctx); err != nil || c.Claims != int64(count)+1 {
			rt.Fatalf("%+v %v", c, err)
		}
		for i := range count {
			r, err := l.BeginCopy(ctx, validate.EntryNumber{Epoch: 1, Seq: int64(i + 1)})
			if err != nil || r.Copies < 2 {
				rt.Fatalf("the next copy of slip %d is no DUPLICATA: %+v %v", i+1, r, err)
			}
		}
		if err := l.Close(); err != nil {
			rt.Fatal(err)
		}
	})
}

// TestImportedJournalGoesOnWhereItWas: shifts, closings, reversals, reprints and training
// too, and central's notes for the years, in the middle of whatever was going on.
func TestImportedJournalGoesOnWhereItWas(t *testing.T) {
	ctx := context.Background()
	s := newSigners(t)
	rapid.Check(t, func(rt *rapid.T) {
		tl := newTill(t)
		tl.l.opt.Sign = s.sign
		for range rapid.IntRange(0, 25).Draw(rt, "steps") {
			if n := tl.step(rt); n%4 == 0 && tl.l.Head().Seq > 0 {
				a := ackAt(t, tl.l, tl.l.Head().Seq, noon)
				a.AllowanceClaims, a.AllowanceMinor = 0, 0 // what is drawn may come to any sum
				s.acks(t, tl.l, a)
			}
		}
		text := exported(t, tl.l, Range{})
		if p, err := VerifyExport(ctx, bytes.NewReader(text), s.Keys); err != nil || p.Check != must(tl.l.Verify(ctx)) {
			rt.Fatalf("%+v %v", p, err)
		}
		history, unsent := fmt.Sprint(kinds(must(tl.l.History(ctx, 50)))), must(tl.l.Unsent(ctx))
		opt := tl.l.opt
		if err := tl.l.Close(); err != nil {
			rt.Fatal(err)
		}
		opt.Path, opt.Sign = options(memory(t)).Path, nil
		if _, err := Import(ctx, bytes.NewReader(text), opt, ImportOptions{Keys: s.Keys}); err != nil {
			rt.Fatalf("%v\n%s", err, text)
		}
		tl.l = openTest(t, opt)
		tl.hurry()
		if again := exported(t, tl.l, Range{}); !bytes.Equal(again, text) {
			rt.Fatalf("exported as\n%sand from the import as\n%s", text, again)
		}
		if h, u := fmt.Sprint(kinds(must(tl.l.History(ctx, 50)))), must(tl.l.Unsent(ctx)); h != history || u != unsent {
			rt.Fatalf("%s, unsent %+v\nwas\n%s, unsent %+v", h, u, history, unsent)
		}
		tl.checkX(rt, validate.ClosingKinds()...)
		for range 10 {
			tl.step(rt)
		}
		tl.verify(rt)
		if err := tl.l.Close(); err != nil {
			rt.Fatal(err)
		}
	})
}

// TestNotesOfYearsAreProvenExportedAndImported: the newest acknowledgement has taken their
// place in the mark, and the archive of the year needs them.
func TestNotesOfYearsAreProvenExportedAndImported(t *testing.T) {
	ctx := context.Background()
	s := newSigners(t)
	l := openTest(t, options(t.TempDir()))
	record(t, l, claim(t, 1))
	for _, kind := range []validate.ClosingKind{validate.DayClosing, validate.MonthClosing, validate.YearClosing} {
		if _, err := l.Z(ctx, kind, Ending{Operator: "marie"}); err != nil {
			t.Fatal(err)
		}
	}
	year := l.Head().Seq
	s.ack(t, l, year, noon)
	record(t, l, claim(t, 2))
	s.ack(t, l, year+1, noon)
	text := exported(t, l, Range{})
	if n := bytes.Count(text, []byte(`{"ack":`)); n != 2 {
		t.Fatalf("%d notes", n)
	}
	opt := options(t.TempDir())
	if _, err := Import(ctx, bytes.NewReader(text), opt, ImportOptions{Keys: s.Keys}); err != nil {
		t.Fatal(err)
	}
	l = openTest(t, opt)
	var kept int
	if err := l.read.QueryRow("SELECT count(*) FROM countersigned WHERE seq = ?", year).Scan(&kept); err != nil || kept != 1 || acked(t, l) != year+1 {
		t.Fatalf("%d notes are kept: %v", kept, err)
	}
	if again := exported(t, l, Range{}); !bytes.Equal(again, text) {
		t.Fatalf("exported as\n%sand from the import as\n%s", text, again)
	}
	proved(t, l, s.Keys)
	run(t, l.db, "UPDATE countersigned SET note = replace(note, 'allowance 100', 'allowance 900')")
	if _, err := l.Prove(ctx, s.Keys); !errors.Is(err, ErrDamaged) {
		t.Errorf("a changed note of a year: %v", err)
	}
	swapped := bytes.SplitAfter(text, []byte("\n"))
	n := len(swapped)
	swapped[n-4], swapped[n-3] = swapped[n-3], swapped[n-4]
	if _, err := VerifyExport(ctx, bytes.NewReader(reseal(bytes.Join(swapped, nil))), s.Keys); !errors.Is(err, ErrExport) {
		t.Errorf("notes out of order: %v", err)
	}
}

// kinds are transactions without what an import does not take over, how far paper came.
func kinds(list []validate.Transaction) (all []string) {
	for _, x := range list {
		text := fmt.Sprint(x.Entry, x.Reprint, x.Closing != nil)
		if x.Claim != nil {
			text += x.Claim.ID + x.Claim.Slip.Ticket + fmt.Sprint(x.Claim.Amount, x.Claim.Round)
		}
		if x.Reversal != nil {
			text += fmt.Sprint(*x.Reversal)
		}
		all = append(all, text)
	}
	return all
}

// TestImportTakesOverShiftsClosingsAndReversals: what stands beside the chain of them is
// made again from their entries, and the counter goes on where it was.
func TestImportTakesOverShiftsClosingsAndReversals(t *testing.T) {
	ctx := context.Background()
	p := newParties(t)
	p.year(t, 2026)
	p.countersign(t)
	p.begin(t, 5_000)
	p.pay(t, p.newKey(3), 0, 700, "EUR")
	p.ask(t, len(p.claims)-1)
	p.reprint(t, len(p.claims)-1, false)
	archive := p.archive(t, 2026)
	text := exported(t, p.l, Range{})
	opt := options(t.TempDir())
	opt.Moment = p.l.opt.Moment
	if _, err := Import(ctx, bytes.NewReader(text), opt, ImportOptions{Keys: p.keys}); err != nil {
		t.Fatal(err)
	}
	x := *p.till
	x.l = openTest(t, opt)
	if again := exported(t, x.l, Range{}); !bytes.Equal(again, text) {
		t.Fatal("exported otherwise than it was imported")
	}
	x.checkX(t, validate.ClosingKinds()...)
	y := *p
	y.till = &x
	if !bytes.Equal(y.archive(t, 2026), archive) {
		t.Error("the archive of the year has other bytes")
	}
	for _, r := range p.claims {
		want, err1 := p.l.Round(ctx, r.Ticket)
		got, err2 := x.l.Round(ctx, r.Ticket)
		one, err3 := p.l.Receipt(ctx, r.Number)
		two, err4 := x.l.Receipt(ctx, r.Number)
		if err := errors.Join(err1, err2, err3, err4); err != nil || got != want || one.Copies != two.Copies {
			t.Fatalf("ticket %v: round %d, was %d; %d copies, were %d: %v", r.Ticket, got, want, two.Copies, one.Copies, err)
		}
	}
	x.answer(t, true)
	x.z(t, validate.ShiftClosing)
	x.z(t, validate.DayClosing)
	x.verify(t)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestJournalOfTwoEpochsIsExportedAndImportedWhole: what was paid before a restore stays paid.
func TestJournalOfTwoEpochsIsExportedAndImportedWhole(t *testing.T) {
	ctx := context.Background()
	s := newSigners(t)
	text := exported(t, signedBook(t, s), Range{})
	opt := options(t.TempDir())
	if _, err := Import(ctx, bytes.NewReader(text), opt, ImportOptions{Keys: s.Keys, RaiseEpoch: true}); err != nil {
		t.Fatal(err)
	}
	opt.Sign = s.sign
	l := openTest(t, opt)
	record(t, l, claim(t, 600))
	l = reopen(t, l)
	p, err := l.Prove(ctx, s.Keys)
	if err != nil || len(p.Epochs) != 2 || p.Entries != signedEntries+1 || p.Epochs[0].Covered() != signedHead || p.Epochs[1].Covered() != 1 || p.Head.Epoch != 2 {
		t.Fatalf("%+v %v", p, err)
	}
	text = exported(t, l, Range{})
	if part := exported(t, l, Range{From: validate.EntryNumber{Epoch: 2, Seq: 1}}); bytes.Count(part, []byte("\n")) != 5 { // header, entry, slip, head, end
		t.Errorf("%s", part)
	}
	opt = options(t.TempDir())
	if _, err := Import(ctx, bytes.NewReader(text), opt, ImportOptions{Keys: s.Keys}); err != nil {
		t.Fatal(err)
	}
	l = openTest(t, opt)
	if again := exported(t, l, Range{}); !bytes.Equal(again, text) {
		t.Errorf("exported as\n%sand from the import as\n%s", text, again)
	}
	if _, err := l.Record(ctx, func() validate.Claim { c := claim(t, 3); c.ID = strings.Repeat("f", 32); return c }()); !errors.Is(err, ErrPaid) {
		t.Error(err)
	}
}

func TestImportTakesNothingButTheWholeJournalOfAFreshLedgersTerminal(t *testing.T) {
	ctx := context.Background()
	s := newSigners(t)
	text := exported(t, signedBook(t, s), Range{})
	replace := func(old, new string) func([]byte) []byte {
		return func(b []byte) []byte { return bytes.Replace(b, []byte(old), []byte(new), 1) }
	}
	lines := func(edit func([][]byte) [][]byte) func([]byte) []byte {
		return func(b []byte) []byte { return bytes.Join(edit(bytes.SplitAfter(b, []byte("\n"))), nil) }
	}
	for name, c := range map[string]struct {
		edit func([]byte) []byte
		want error
	}{
		"an amount":         {resealed(replace(`"amount_minor":2000`, `"amount_minor":9000`)), ErrExport},
		"a changed byte":    {replace(`"game":"Bingo"`, `"game":"Bongo"`), ErrExport},
		"an entry gone":     {resealed(lines(func(l [][]byte) [][]byte { return append(l[:7:7], l[9:]...) })), ErrExport},
		"the last gone":     {resealed(lines(func(l [][]byte) [][]byte { return append(l[:27:27], l[29:]...) })), ErrExport},
		"entries swapped":   {resealed(lines(func(l [][]byte) [][]byte { l[3], l[5] = l[5], l[3]; return l })), ErrExport},
		"a slip gone":       {resealed(lines(func(l [][]byte) [][]byte { return append(l[:2:2], l[3:]...) })), ErrExport},
		"slips swapped":     {resealed(lines(func(l [][]byte) [][]byte { l[2], l[4] = l[4], l[2]; return l })), ErrExport},
		"a slip's number":   {resealed(replace(`"slip":{"epoch":1,"seq":4`, `"slip":{"epoch":1,"seq":5`)), ErrExport},
		"a slip of another": {resealed(replace(`"ticket":"003"`, `"ticket":"004"`)), ErrExport},
		"a header's name":   {resealed(replace(`"terminal":"T-1"`, `"terminal":"T-2"`)), ErrExport},
		"a header's count":  {resealed(replace(`"entries":14`, `"entries":13`)), ErrExport},
		"a header's end":    {resealed(replace(`"to":{"epoch":1,"seq":14}`, `"to":{"epoch":1,"seq":15}`)), ErrExport},
		"a header's epoch":  {resealed(replace(`"epoch":1,"whole"`, `"epoch":99999999,"whole"`)), ErrExport},
		"a field more":      {resealed(replace(`"whole":true`, `"whole":true,"x":1`)), ErrExport},
		"a blank in a slip": {resealed(replace(`"facts":{"`, `"facts":{ "`)), ErrExport},
		"a blank in a head": {resealed(replace(`{"head":{`, `{"head": {`)), ErrExport},
		"cut":               {func(b []byte) []byte { return b[:len(b)/2] }, ErrExport},
		"cut at a line":     {lines(func(l [][]byte) [][]byte { return l[:20] }), ErrExport},
		"its end cut":       {lines(func(l [][]byte) [][]byte { return l[:len(l)-2] }), ErrExport},
		"its last byte":     {func(b []byte) []byte { return b[:len(b)-1] }, ErrExport},
		"more":              {func(b []byte) []byte { return append(b[:len(b):len(b)], '\n') }, ErrExport},
		"a blank":           {replace(`{"journal":`, `{ "journal":`), ErrExport},
		"another format":    {replace(`"format":1`, `"format":2`), ErrExport},
		"an end's lines":    {replace(`"lines":`, `"lines":1`), ErrExport},
		"an end's hash":     {replace(`"sha256":"`, `"sha256":"0`), ErrExport},
		"no header":         {lines(func(l [][]byte) [][]byte { return l[1:] }), ErrExport},
		"a head's number":   {resealed(replace(`"head":{"epoch":1,"seq":5`, `"head":{"epoch":1,"seq":6`)), ErrDamaged},
		"a head's hash":     {resealed(replace(`"seq":5,"hash":"`, `"seq":5,"hash":"0`)), ErrDamaged},
		"a head's text":     {resealed(replace(`grattoir head v1`, `grattoir head v2`)), ErrDamaged},
		"a signature":       {resealed(replace(`"signature":"ME`, `"signature":"MF`)), ErrDamaged},
		"a note":            {resealed(replace(`allowance 100`, `allowance 900`)), ErrDamaged},
		"nothing":           {func([]byte) []byte { return nil }, ErrExport},
		"a long line":       {func([]byte) []byte { return bytes.Repeat([]byte("x"), 1<<20) }, ErrExport},
	} {
		changed := c.edit(bytes.Clone(text))
		if _, err := VerifyExport(context.Background(), bytes.NewReader(changed), s.Keys); !errors.Is(err, c.want) {
			t.Errorf("%s, verified without a ledger: %v", name, err)
		}
		opt := options(memory(t))
		if _, err := Import(ctx, bytes.NewReader(changed), opt, ImportOptions{Keys: s.Keys}); !errors.Is(err, c.want) || !strings.Contains(err.Error(), "nothing was changed") {
			t.Errorf("%s: %v", name, err)
		}
		l := openTest(t, opt)
		if l.Head().Seq != 0 {
			t.Errorf("%s left entries", name)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := Import(ctx, bytes.NewReader(text), opt, ImportOptions{Keys: s.Keys}); err != nil { // a refusal is no first use
			t.Errorf("after %s: %v", name, err)
		}
		if _, err := Import(ctx, bytes.NewReader(text), opt, ImportOptions{Keys: s.Keys}); !errors.Is(err, ErrNotFresh) {
			t.Errorf("twice: %v", err)
		}
	}
	opt := options(memory(t))
	if _, err := Import(ctx, bytes.NewReader(text), opt, ImportOptions{}); err == nil || !strings.Contains(err.Error(), "central's key") {
		t.Errorf("an acknowledgement was believed: %v", err)
	}
	opt.Terminal = "T-2"
	opt.Path += "2"
	if _, err := Import(ctx, bytes.NewReader(text), opt, ImportOptions{Keys: s.Keys}); err == nil || !strings.Contains(err.Error(), `terminal "T-1"`) {
		t.Errorf("another terminal's: %v", err)
	}
}

// TestImportUnderAMistypedNameMakesNoLedger: it would bear that name for good, and refuse
// the right import.
func TestImportUnderAMistypedNameMakesNoLedger(t *testing.T) {
	ctx := context.Background()
	s := newSigners(t)
	text := exported(t, signedBook(t, s), Range{})
	dir := t.TempDir()
	opt := options(dir)
	wrong := opt
	wrong.Terminal = "T-2"
	if _, err := Import(ctx, bytes.NewReader(text), wrong, ImportOptions{Keys: s.Keys}); !errors.Is(err, ErrExport) || !strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("another terminal's: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if _, err := Import(ctx, bytes.NewReader(text), opt, ImportOptions{Keys: s.Keys}); err != nil {
		t.Errorf("the right name afterwards: %v", err)
	}
}

func resealed(edit func([]byte) []byte) func([]byte) []byte {
	return func(b []byte) []byte { return reseal(edit(b)) }
}

// reseal makes an export's end anew, as anybody can.
func reseal(text []byte) []byte {
	lines := bytes.SplitAfter(text, []byte("\n"))
	lines = lines[:len(lines)-2]
	sum := sha256.Sum256(bytes.Join(lines, nil))
	return append(bytes.Join(lines, nil), fmt.Sprintf(`{"end":{"lines":%d,"sha256":"%x"}}`+"\n", len(lines), sum)...)
}

// TestGapInAChainThatFitsIsFound: the hashes are right, a number is missing.
func TestGapInAChainThatFitsIsFound(t *testing.T) {
	l := openTest(t, options(t.TempDir()))
	record(t, l, claim(t, 1))
	record(t, l, claim(t, 2))
	lines := bytes.SplitAfter(exported(t, l, Range{}), []byte("\n"))
	for at, old := range map[int]string{0: `"to":{"epoch":1,"seq":2`, 3: `"epoch":1,"seq":2`, 4: `"epoch":1,"seq":2`} {
		lines[at] = bytes.Replace(lines[at], []byte(old), []byte(strings.TrimSuffix(old, "2")+"3"), 1)
	}
	if _, err := VerifyExport(context.Background(), bytes.NewReader(reseal(bytes.Join(lines, nil))), Keys{}); !errors.Is(err, ErrExport) || !strings.Contains(err.Error(), "gap") {
		t.Error(err)
	}
}

// TestTicketPaidTwiceInAnExportIsRefused: a chain made by somebody with a clever hand.
func TestTicketPaidTwiceInAnExportIsRefused(t *testing.T) {
	l := openTest(t, options(t.TempDir()))
	record(t, l, claim(t, 1))
	record(t, l, claim(t, 2))
	lines := bytes.SplitAfter(exported(t, l, Range{}), []byte("\n"))
	lines[3] = bytes.Replace(lines[3], []byte(`"ticket":2`), []byte(`"ticket":1`), 1)
	lines[4] = bytes.Replace(lines[4], []byte(`"ticket":"002"`), []byte(`"ticket":"001"`), 1)
	text := reseal(bytes.Join(lines, nil))
	if _, err := Import(context.Background(), bytes.NewReader(text), options(t.TempDir()), ImportOptions{}); !errors.Is(err, ErrExport) || !strings.Contains(err.Error(), "1-000002") {
		t.Error(err)
	}
}

func TestExportOfEveryVersionIsImported(t *testing.T) {
	ctx := context.Background()
	for version := 1; version <= 2; version++ {
		i := inspected(t, old(t, version).Path, InPlace)
		var b bytes.Buffer
		if err := i.Export(ctx, &b, Range{}); err != nil {
			t.Fatal(err)
		}
		if err := i.Close(); err != nil {
			t.Fatal(err)
		}
		opt := options(t.TempDir())
		if _, err := Import(ctx, &b, opt, ImportOptions{Keys: Keys{Central: versionKeys(t, max(version, 2)).Central}}); err != nil {
			t.Fatal(err)
		}
		l := openTest(t, opt)
		paysOn(t, l)
	}
}

func FuzzVerifyExport(f *testing.F) {
	s := newSigners(f)
	f.Add(exported(f, signedBook(f, s), Range{}))
	f.Add([]byte(`{"journal":{"format":1,"terminal":"T-1","epoch":1,"whole":true,"entries":0,"from":{"epoch":0,"seq":0},"to":{"epoch":0,"seq":0}}}` + "\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := VerifyExport(context.Background(), bytes.NewReader(text), s.Keys)
		if err == nil && p.Entries > 0 && p.Head.Seq < 1 {
			t.Fatalf("%+v", p)
		}
	})
}
