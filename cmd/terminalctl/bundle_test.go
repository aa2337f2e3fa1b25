package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"grattoir/configs"
	"grattoir/device/health"
	"grattoir/sync/ledger"
	"grattoir/validate"
	"grattoir/validate/manifest"
	"grattoir/validate/ticket"
)

const plantedPIN = "58206174"

// planted is a terminal with every kind of secret that it knows, in its own files and in
// places where somebody may have put it.
type planted struct {
	dir     string
	secrets map[string]string
}

func (p *planted) put(t *testing.T, name, content string) {
	t.Helper()
	path := filepath.Join(p.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o750), os.WriteFile(path, []byte(content), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func plant(t *testing.T) *planted {
	t.Helper()
	p := &planted{dir: t.TempDir(), secrets: map[string]string{"pin": plantedPIN, "password": "hunter2-hunter2", "operator's name": "Anne Le Goff",
		"winner": "Yann Kerbrat", "shop's street": "rue des Secrets", "enrolment code": "ABCD-EFGH-IJKL-MNOP-QRST-UVWX-YZ23-4567"}}
	p.keys(t)
	p.tickets(t)
	p.people(t)
	s := p.secrets
	p.put(t, "terminald.toml", "# the password of the box is "+s["password"]+", PIN "+plantedPIN+"\n# "+s["ticket"]+"\n"+bundleConfig+"\n# "+s["claim key"]+"\n")
	p.put(t, "linked.toml", strings.Replace(bundleConfig, "keys = [\"lottery.pub\"]\nstand_alone = true", "[central]\nurl = \"https://max:"+s["password"]+"@127.0.0.1:1/"+s["claim key"]+"\"", 1))
	p.put(t, "broken.toml", "nmae = \""+s["claim key"]+"\"\nname = 3 # "+s["password"]+"\nshop = \""+s["ticket"]+"\"\n")
	p.put(t, "unset.toml", "name = \""+s["password"]+" "+s["claim key"]+"\"\nlanguage = \""+s["ticket"]+"\"\ntime_zone = \""+s["note key"]+"\"\n")
	var log strings.Builder
	for name, secret := range s {
		fmt.Fprintf(&log, "time=2026-11-30T11:44:54.000Z level=ERROR msg=failed pin=%s operator=%q secret=%q\n", plantedPIN, s["operator's name"], secret)
		fmt.Fprintf(&log, "Nov 30 11:44:54 shop sudo: %s\n", secret)
		if !slices.Contains([]string{"pin", "password", "operator's name", "winner", "shop's street"}, name) { // of these no text tells by itself what they are
			fmt.Fprintf(&log, "time=2026-11-30T11:44:54.000Z level=ERROR msg=failed err=%q detail=%q\n", "open /x/"+secret+": no such file", secret)
		}
	}
	p.put(t, "terminald.log", log.String())
	return p
}

// keys plants every kind of key.
func (p *planted) keys(t *testing.T) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	p.secrets["device key"] = base64.StdEncoding.EncodeToString(der)
	secret, public, err := ledger.GenerateClaimKey()
	if err != nil {
		t.Fatal(err)
	}
	noteKey, noteVerifier, err := note.GenerateKey(rand.Reader, "lottery")
	if err != nil {
		t.Fatal(err)
	}
	pepper := manifest.NewPepper()
	p.secrets["claim key"], p.secrets["note key"], p.secrets["pepper"] = strings.TrimSpace(secret), noteKey, hex.EncodeToString(pepper[:])
	p.put(t, "lottery.pub", noteVerifier)
	p.put(t, "claim.pub", public)
	p.put(t, "data/slip.key", text)
	p.put(t, "data/identity/identity.json", fmt.Sprintf("{\"format\":1,\"key\":%q,\"terminal\":7}", text))
	p.put(t, "data/identity/pending.pem", text)
	p.put(t, "data/claim.key", secret)
	p.put(t, "data/lottery.key", noteKey)
	p.put(t, "data/manifests/x.pepper", pepper.Text())
	p.put(t, "data/manifests/"+noteKey[:40]+".manifest", noteKey)
	p.put(t, "data/policies/old.policy", noteKey)
}

// tickets plants codes beside the ledger and, sealed, in it.
func (p *planted) tickets(t *testing.T) {
	t.Helper()
	c, err := ticket.Make(ticket.G40(), "399", 123, 17, "4192837465019283746501")
	if err != nil {
		t.Fatal(err)
	}
	p.secrets["ticket"], p.secrets["ticket's secret"] = c.Digits(), c.Secret()
	p.put(t, "data/tickets.csv", "code,prize_minor\n"+c.Digits()+",2000\n")
	p.put(t, "data/manifests/"+c.Digits()+".manifest", c.Digits())
	text, err := os.ReadFile(filepath.Join(p.dir, "claim.pub"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := ledger.ParseClaimKey(string(text))
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	book, err := ledger.Open(context.Background(), ledger.Options{Path: filepath.Join(p.dir, "data", "ledger.db"), Terminal: "T-1", ClaimKey: key, Moment: func() ledger.Moment { return ledger.Moment{Device: at} }})
	if err != nil {
		t.Fatal(err)
	}
	_, err = book.Record(context.Background(), validate.Claim{ID: strings.Repeat("ab", 16), Ticket: validate.TicketKey{Block: validate.BlockID{1}, Pack: 123, Number: 17},
		Tier: 1, Amount: 2000, Currency: "EUR", Secret: c, Operator: "anne", Slip: validate.SlipFacts{Game: "Bingo", Pack: "0000123", Ticket: "017"}})
	opening := ""
	err = errors.Join(err, book.Lines(context.Background(), 1, 0, func(_ int64, line []byte) error {
		e, err := ledger.ParseEntry(line)
		if err != nil {
			return err
		}
		body, err := e.Claim()
		opening = body.Opening
		return err
	}), book.Close())
	if err != nil || opening == "" {
		t.Fatalf("no opening is in the ledger: %v", err)
	}
	p.secrets["opening"] = opening
}

// people plants an operator, whose PIN's hash is taken from the file.
func (p *planted) people(t *testing.T) {
	t.Helper()
	p.put(t, "terminald.toml", bundleConfig)
	p.put(t, "pin", plantedPIN+"\n")
	cmd := command()
	cmd.SetOut(io.Discard)
	cmd.SetArgs([]string{"operator", "add", "anne", "--name", p.secrets["operator's name"], "--role", "manager", "--config", filepath.Join(p.dir, "terminald.toml"), "--pin-file", filepath.Join(p.dir, "pin")})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(p.dir, "data", "people.db"))
	if err != nil {
		t.Fatal(err)
	}
	log, _ := os.ReadFile(filepath.Join(p.dir, "data", "people.db-wal"))
	hash := regexp.MustCompile(`\$?argon2id?[!-~]{40,}`).Find(append(text, log...))
	if hash == nil {
		t.Fatal("no hash of a PIN is in the operators' file: what is planted proves nothing")
	}
	p.secrets["pin's hash"] = string(hash)
	p.put(t, "data/register.db", p.secrets["winner"])
	p.put(t, "data/register.db.key", p.secrets["pepper"])
}

const bundleConfig = `name = "T-1"
data = "data"
socket = "terminald.sock"
keys = ["lottery.pub"]
stand_alone = true
[shop]
name = "Tabac rue des Secrets"
address = ["1 rue des Secrets"]
[scanner]
path = "scanner"
[printer]
path = "printer"
[policy]
version = "1"
currency = "EUR"
shop_limit_minor = 30000
claim_days = 30
`

// TestBundleHoldsNoSecret plants each kind of secret in every place of a terminal and
// looks for it, and for any long piece of it, in the bundle.
func TestBundleHoldsNoSecret(t *testing.T) {
	p := plant(t)
	for _, config := range []string{"terminald.toml", "linked.toml", "broken.toml", "unset.toml"} {
		t.Run(config, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "b.tar.gz")
			cmd := command()
			cmd.SetOut(io.Discard)
			cmd.SetArgs([]string{"bundle", "--config", filepath.Join(p.dir, config), "--out", out, "--log", filepath.Join(p.dir, "terminald.log")})
			if err := cmd.Execute(); err != nil {
				t.Fatal(err)
			}
			files := unpack(t, out)
			for _, name := range []string{health.PartDoctor, health.PartConfig, health.PartLog, health.PartLedger, health.PartManifests, health.PartVersions} {
				if len(files[name]) < 10 {
					t.Errorf("%s is missing or empty: %q", name, files[name])
				}
			}
			if config == "terminald.toml" && (!strings.Contains(files[health.PartLedger], `"claim": 1`) || !strings.Contains(files[health.PartConfig], `"policy.shop_limit_minor": 30000`)) {
				t.Errorf("what support needs is missing:\n%s%s", files[health.PartLedger], files[health.PartConfig])
			}
			for name, text := range files {
				for what, secret := range p.secrets {
					if piece := found(text, secret); piece != "" {
						t.Errorf("%s holds %d characters of the %s", name, len(piece), what)
					}
				}
			}
		})
	}
}

// found is the first piece of a secret that a text holds, "" for none. A short secret
// must be there whole; of a long one any 14 characters are too many.
func found(text, secret string) string {
	const piece = 14
	if len(secret) <= piece {
		if strings.Contains(text, secret) {
			return secret
		}
		return ""
	}
	for i := range len(secret) - piece + 1 {
		if w := secret[i : i+piece]; strings.Contains(text, w) && !strings.HasPrefix(w, "grattoir-") && !strings.Contains("PRIVATE+KEY+lottery+", w) {
			return w
		}
	}
	return ""
}

// unpack gives the files of a bundle by name, and proves its form on the way.
func unpack(t *testing.T, path string) map[string]string {
	t.Helper()
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 || info.Size() > 4<<20 {
		t.Fatalf("%v, %v", info, err)
	}
	packed, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	zip, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	archive, files, names := tar.NewReader(zip), map[string]string{}, []string{}
	for {
		head, err := archive.Next()
		if err == io.EOF {
			break
		}
		if err != nil || head.Mode != 0o600 || filepath.IsAbs(head.Name) || strings.Contains(head.Name, "..") || head.Size > health.MaxPart {
			t.Fatalf("%+v, %v", head, err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(head.Name)] = string(text)
		names = append(names, head.Name)
	}
	if !slices.IsSorted(names) {
		t.Errorf("in no order: %v", names)
	}
	return files
}

func TestBundleOverwritesNothing(t *testing.T) {
	out := filepath.Join(t.TempDir(), "b.tar.gz")
	if err := os.WriteFile(out, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := saveBundle(new(health.Bundle), out, "T-1", time.Now()); !errors.Is(err, os.ErrExist) {
		t.Errorf("%v", err)
	}
}

// TestEveryConfigurationKeyIsToldOrKept: somebody who adds a key decides whether support
// may read it.
func TestEveryConfigurationKeyIsToldOrKept(t *testing.T) {
	kept := []string{"operator", "shop.name", "shop.address"}
	var all []string
	walkConfig("", reflect.ValueOf(configs.Terminal{}), func(key string, _ reflect.Value) { all = append(all, key) })
	for _, key := range all {
		if slices.Contains(configKeys(), key) == slices.Contains(kept, key) {
			t.Errorf("%s: put it into configKeys, or here into what is kept", key)
		}
	}
	for _, key := range append(configKeys(), kept...) {
		if !slices.Contains(all, key) {
			t.Errorf("%s is no key of the configuration", key)
		}
	}
}

func TestBundleTellsCentralsHostAlone(t *testing.T) {
	var c configs.Terminal
	c.Central.URL = "https://max@central.example:8443/path?word=x"
	if got := configFacts(c)["central.url"]; got != "https://central.example:8443" {
		t.Errorf("%v", got)
	}
}
