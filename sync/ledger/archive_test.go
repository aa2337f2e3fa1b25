package ledger

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"grattoir/validate"
)

// parties are a terminal with a key, and central with its own.
type parties struct {
	*till
	device     *ecdsa.PrivateKey
	signer     note.Signer
	centralKey string
	keys       Keys
}

func newParties(t testing.TB) *parties {
	t.Helper()
	device, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	secret, public, err := note.GenerateKey(rand.Reader, "central.example")
	if err != nil {
		t.Fatal(err)
	}
	signer, err1 := note.NewSigner(secret)
	verifier, err2 := note.NewVerifier(public)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	p := &parties{till: newTill(t), device: device, signer: signer, centralKey: public, keys: Keys{Central: note.VerifierList(verifier), Device: []*ecdsa.PublicKey{&device.PublicKey}}}
	p.l.opt.Sign = func(text []byte) ([]byte, error) {
		sum := sha256.Sum256(text)
		return ecdsa.SignASN1(rand.Reader, device, sum[:])
	}
	// Somebody did something between any two closings.
	lines := int64(0)
	p.l.opt.Audits = func(context.Context) []AuditHead {
		lines++
		return []AuditHead{auditHead("operators", lines)}
	}
	return p
}

// countersign is central's acknowledgement of everything.
func (p *parties) countersign(t testing.TB) {
	t.Helper()
	a := ackAt(t, p.l, p.l.Head().Seq, noon)
	n, err := note.Sign(&note.Note{Text: a.Text()}, p.signer)
	if err != nil {
		t.Fatal(err)
	}
	a.Note = string(n)
	if err := p.l.Ack(context.Background(), a); err != nil {
		t.Fatal(err)
	}
}

// year is some weeks of work and the closing of a year.
func (p *parties) year(t testing.TB, year int) {
	t.Helper()
	p.clock = time.Date(year, 11, 30, 12, 0, 0, 0, time.UTC)
	for day := range 3 {
		p.begin(t, 10_000)
		for i := range 4 {
			p.pay(t, p.newKey(byte(1+i)), 0, 1500, "EUR")
		}
		p.ask(t, len(p.claims)-1)
		p.answer(t, day%2 == 0)
		p.reprint(t, day, day == 1)
		p.z(t, validate.ShiftClosing)
		p.z(t, validate.DayClosing)
	}
	p.z(t, validate.MonthClosing)
	p.z(t, validate.YearClosing)
}

func (p *parties) archive(t testing.TB, year int) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := p.l.Archive(context.Background(), year, &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestArchiveIsVerifiedOnAnotherMachine(t *testing.T) {
	p := newParties(t)
	for year := 2026; year <= 2028; year++ {
		p.year(t, year)
		p.pay(t, p.newKey(9), 0, 100, "EUR") // the next year begins before central has answered
		p.countersign(t)
	}
	for year := 2026; year <= 2028; year++ {
		proof, err := VerifyArchive(bytes.NewReader(p.archive(t, year)), p.keys)
		if err != nil {
			t.Fatalf("%d: %v", year, err)
		}
		if !proof.Device || !proof.Central || proof.Year != year || proof.Terminal != "T-1" || proof.Closing.Number != int64(year-2025) || proof.Heads < 8 {
			t.Errorf("%d: %+v", year, proof)
		}
		if want := p.claimsTo(proof.To); perpetualOf(proof.Closing, "EUR").Paid.Count != want {
			t.Errorf("%d: the perpetual total counts %d payments, want %d", year, perpetualOf(proof.Closing, "EUR").Paid.Count, want)
		}
		blind, err := VerifyArchive(bytes.NewReader(p.archive(t, year)), Keys{})
		if err != nil || blind.Device || blind.Central || !blind.CentralNote {
			t.Errorf("%d without keys: %+v %v", year, blind, err)
		}
	}
	if err := p.l.AppendArchive(context.Background(), ArchiveBody{Year: 2026, SHA256: strings.Repeat("0", 64), Operator: "paul"}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.l.Verify(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func (tl *till) claimsTo(n validate.EntryNumber) (count int64) {
	for _, r := range tl.claims {
		if r.Number.Seq <= n.Seq {
			count++
		}
	}
	return count
}

// TestArchiveHasTheSameBytesWheneverItIsMade: what came later, and a restart, change nothing.
func TestArchiveHasTheSameBytesWheneverItIsMade(t *testing.T) {
	p := newParties(t)
	p.year(t, 2026)
	p.countersign(t)
	first := p.archive(t, 2026)
	p.year(t, 2027)
	p.countersign(t)
	p.restart()
	if !bytes.Equal(first, p.archive(t, 2026)) {
		t.Fatal("another archive of the same year")
	}
}

func TestArchiveOfAYearThatIsOpenIsRefused(t *testing.T) {
	p := newParties(t)
	p.year(t, 2026)
	if _, err := p.l.Archive(context.Background(), 2027, io.Discard); !errors.Is(err, ErrNoClosing) {
		t.Fatal(err)
	}
}

// TestArchiveOfAYearClosedTwiceHoldsBoth: two closings in a row are allowed, and carry
// the same year.
func TestArchiveOfAYearClosedTwiceHoldsBoth(t *testing.T) {
	p := newParties(t)
	p.year(t, 2026)
	p.z(t, validate.YearClosing)
	proof, err := VerifyArchive(bytes.NewReader(p.archive(t, 2026)), p.keys)
	if err != nil || proof.Closing.Number != 2 || proof.From.Seq != 1 {
		t.Fatalf("%+v %v", proof, err)
	}
}

// TestArchiveOverAJournalEpoch: the epoch was raised in the middle of the year.
func TestArchiveOverAJournalEpoch(t *testing.T) {
	p := newParties(t)
	p.pay(t, p.newKey(1), 0, 700, "EUR")
	for _, q := range []string{"UPDATE meta SET epoch = 2", "INSERT INTO acks(epoch, seq) VALUES(2, 0)"} {
		if _, err := p.l.db.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	p.restart()
	p.pay(t, p.newKey(1), 0, 300, "EUR")
	for _, kind := range validate.ClosingKinds()[1:] {
		if _, err := p.l.Z(context.Background(), kind, Ending{Operator: "marie"}); err != nil {
			t.Fatal(err)
		}
	}
	proof, err := VerifyArchive(bytes.NewReader(p.archive(t, 2026)), p.keys)
	if err != nil || !proof.Device || proof.From.Epoch != 1 || proof.To.Epoch != 2 || proof.Closing.Totals[0].Paid.Money != 1000 {
		t.Fatalf("%+v %v", proof, err)
	}
}

// TestNoChangedByteOfAnArchivePasses: every byte that says something is covered; only
// padding and tar's own fields that name no content may differ without being noticed.
func TestNoChangedByteOfAnArchivePasses(t *testing.T) {
	p := newParties(t)
	p.year(t, 2026)
	p.countersign(t)
	honest := p.archive(t, 2026)
	want, err := VerifyArchive(bytes.NewReader(honest), p.keys)
	if err != nil {
		t.Fatal(err)
	}
	step := 1 + len(honest)/300 // places
	if os.Getenv("GRATTOIR_SOAK") != "" {
		step = 1
	}
	for at := 0; at < len(honest); at += step {
		changed := bytes.Clone(honest)
		changed[at] ^= 1
		got, err := VerifyArchive(bytes.NewReader(changed), p.keys)
		if err == nil && !sameContent(t, honest, changed) {
			t.Fatalf("byte %d changed: %+v", at, got)
		}
		if err == nil && (got.Closing.Hash != want.Closing.Hash || got.Entries != want.Entries) {
			t.Fatalf("byte %d changed: another proof: %+v", at, got)
		}
	}
	for _, cut := range []int{0, 1, 511, 512, 5000, len(honest) / 2, len(honest) - 2048} {
		if _, err := VerifyArchive(bytes.NewReader(honest[:cut]), p.keys); err == nil {
			t.Errorf("cut at %d of %d bytes: verified", cut, len(honest))
		}
	}
	if _, err := VerifyArchive(bytes.NewReader(append(bytes.Clone(honest), "more"...)), p.keys); !errors.Is(err, ErrArchive) {
		t.Errorf("with bytes behind it: %v", err)
	}
}

func sameContent(t testing.TB, a, b []byte) bool {
	t.Helper()
	return fmt.Sprint(files(t, a)) == fmt.Sprint(files(t, b))
}

// files are the contents of an archive by name.
func files(t testing.TB, archive []byte) map[string]string {
	t.Helper()
	list := map[string]string{}
	in := tar.NewReader(bytes.NewReader(archive))
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		list[h.Name] = string(text)
	}
}

// TestForgedArchivesAreRefused: whoever makes an archive anew, with every hash right,
// lacks the keys; and sums that lie are found even without them.
func TestForgedArchivesAreRefused(t *testing.T) {
	p, other, mute := newParties(t), newParties(t), newParties(t)
	mute.l.opt.Sign = nil
	mute.year(t, 2026)
	if _, err := VerifyArchive(bytes.NewReader(mute.archive(t, 2026)), Keys{Device: p.keys.Device}); !errors.Is(err, ErrArchive) {
		t.Errorf("without any signature: %v", err)
	}
	for _, x := range []*parties{p, other} {
		x.year(t, 2026)
		x.countersign(t)
	}
	if _, err := VerifyArchive(bytes.NewReader(other.archive(t, 2026)), p.keys); !errors.Is(err, ErrArchive) || !strings.Contains(err.Error(), "device's signature") {
		t.Errorf("another device's journal: %v", err)
	}
	if _, err := VerifyArchive(bytes.NewReader(other.archive(t, 2026)), Keys{Central: p.keys.Central}); !errors.Is(err, ErrArchive) || !strings.Contains(err.Error(), "central's signature") {
		t.Errorf("another central's journal: %v", err)
	}
}

// TestEditedArchiveIsRefusedWithoutAnyKey: one file changed, and the sums made anew.
func TestEditedArchiveIsRefusedWithoutAnyKey(t *testing.T) {
	p := newParties(t)
	p.year(t, 2026)
	p.countersign(t)
	honest := p.archive(t, 2026)
	for name, c := range map[string]struct {
		file, from, to string
		sums           bool
	}{
		"nothing":                      {"README.txt", "", "", true},
		"a clerk's name in a line":     {"journal-1.jsonl", `"kind":"shift-open","body":{"shift":1,"operator":"marie"`, `"kind":"shift-open","body":{"shift":1,"operator":"paula"`, true},
		"an amount":                    {"journal-1.jsonl", `"amount_minor":1500`, `"amount_minor":1501`, true},
		"an amount, and the old sums":  {"journal-1.jsonl", `"amount_minor":1500`, `"amount_minor":1501`, false},
		"the README, and the old sums": {"README.txt", "sha256sum", "true", false},
		"a closing in its list":        {"closings.jsonl", `"operator":"marie"`, `"operator":"paula"`, true},
		"the year":                     {"archive.json", `"year":2026`, `"year":2025`, true},
		"the terminal":                 {"archive.json", `"terminal":"T-1"`, `"terminal":"T-2"`, true},
		"where it begins":              {"archive.json", `"from":{"epoch":1,"seq":1}`, `"from":{"epoch":1,"seq":2}`, true},
		"how many lines":               {"archive.json", `"entries":`, `"entries":1`, true},
		"a head that was signed":       {"heads.jsonl", `"hash":"`, `"hash":"0`, true},
	} {
		edited := repack(t, honest, c.sums, func(file, text string) string {
			if file != c.file {
				return text
			}
			if !strings.Contains(text, c.from) {
				t.Fatalf("%s: %s does not hold %s", name, file, c.from)
			}
			return strings.Replace(text, c.from, c.to, 1)
		})
		if _, err := VerifyArchive(bytes.NewReader(edited), Keys{}); (err == nil) != (name == "nothing") {
			t.Errorf("%s changed: %v", name, err)
		}
	}
}

// repack makes an archive again with files edited, and its sums too where sums is set.
func repack(t testing.TB, archive []byte, sums bool, edit func(name, text string) string) []byte {
	t.Helper()
	var out bytes.Buffer
	var list strings.Builder
	w := tar.NewWriter(&out)
	in := tar.NewReader(bytes.NewReader(archive))
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		text := edit(h.Name, string(raw))
		if h.Name == "SHA256SUMS" && sums {
			text = list.String()
		}
		fmt.Fprintf(&list, "%x  %s\n", sha256.Sum256([]byte(text)), h.Name)
		h.Size = int64(len(text))
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestReadmeOfAnArchiveVerifiesItWithCommonTools runs the README's commands as they
// stand, in bash with tar, sha256sum, jq and openssl.
func TestReadmeOfAnArchiveVerifiesItWithCommonTools(t *testing.T) {
	for _, tool := range []string{"bash", "tar", "sha256sum", "jq", "openssl"} {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatalf("%s is missing", tool)
			}
			t.Skipf("%s is missing: the README's commands were NOT tried", tool)
		}
	}
	p := newParties(t)
	p.year(t, 2026)
	p.countersign(t)
	p.year(t, 2027)
	p.pay(t, p.newKey(9), 0, 100, "EUR")
	p.countersign(t)
	for year, edit := range map[int]func(string) string{2027: nil, 1: func(s string) string { return strings.Replace(s, `"amount_minor":1500`, `"amount_minor":1501`, 1) }} {
		dir := t.TempDir()
		of := max(year, 2026)
		archive := p.archive(t, of)
		unpack(t, dir, archive, edit)
		der, err := x509.MarshalPKIXPublicKey(&p.device.PublicKey)
		if err != nil {
			t.Fatal(err)
		}
		put(t, dir, "device.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})))
		put(t, dir, "central.key", p.centralKey+"\n")
		var script strings.Builder
		script.WriteString("set -e\n")
		for line := range strings.Lines(files(t, archive)["README.txt"]) {
			if command, ok := strings.CutPrefix(line, "    "); ok && (edit == nil || !strings.HasPrefix(command, "sha256sum --check")) {
				script.WriteString(command)
			}
		}
		cmd := exec.Command("bash", "-c", script.String())
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if edit != nil {
			if err == nil {
				t.Errorf("a changed line passes:\n%s", out)
			}
			continue
		}
		if err != nil || !strings.Contains(string(out), "Verified OK") || !strings.Contains(string(out), "Signature Verified Successfully") {
			t.Errorf("%d: %v\n%s\n%s", year, err, out, script.String())
		}
		var sum int64
		for _, r := range p.claims {
			if proof, _ := VerifyArchive(bytes.NewReader(archive), p.keys); r.Number.Seq >= proof.From.Seq && r.Number.Seq <= proof.To.Seq {
				sum += int64(r.Amount)
			}
		}
		if !strings.Contains(string(out), fmt.Sprintf("\"minor\": %d", sum)) || !strings.HasSuffix(strings.TrimSpace(string(out)), fmt.Sprint(sum)) {
			t.Errorf("%d: the sum %d is not what the commands show:\n%s", year, sum, out)
		}
	}
}

func unpack(t testing.TB, dir string, archive []byte, edit func(string) string) {
	t.Helper()
	for name, text := range files(t, archive) {
		if edit != nil && strings.HasPrefix(name, "journal-") {
			text = edit(text)
		}
		put(t, dir, name, text)
	}
}

func put(t testing.TB, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestTarToolReadsAnArchive: it is a plain tar file.
func TestTarToolReadsAnArchive(t *testing.T) {
	if _, err := exec.LookPath("tar"); err != nil {
		t.Skip("no tar here")
	}
	p := newParties(t)
	p.year(t, 2026)
	path := filepath.Join(t.TempDir(), "a.tar")
	if err := os.WriteFile(path, p.archive(t, 2026), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("tar", "tf", path).CombinedOutput()
	if want := "README.txt\narchive.json\nheads.jsonl\nacks.jsonl\njournal-1.jsonl\nclosings.jsonl\nSHA256SUMS\n"; err != nil || string(out) != want {
		t.Fatalf("%s %v", out, err)
	}
}

func FuzzVerifyArchive(f *testing.F) {
	p := newParties(f)
	p.year(f, 2026)
	var b bytes.Buffer
	if _, err := p.l.Archive(context.Background(), 2026, &b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add(b.Bytes()[:5000])
	f.Fuzz(func(t *testing.T, archive []byte) {
		proof, err := VerifyArchive(bytes.NewReader(archive), p.keys)
		if err != nil {
			return
		}
		if hash, err := hex.DecodeString(proof.SHA256); err != nil || len(hash) != sha256.Size || !proof.Device {
			t.Fatalf("%+v", proof)
		}
	})
}
