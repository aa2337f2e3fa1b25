package uplink

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"grattoir/sync/wire"
)

func TestEnrolmentStoresAnIdentityThatLoadsAndWorks(t *testing.T) {
	c := newCentral(t)
	dir := filepath.Join(t.TempDir(), "identity")
	url := c.loopback()
	// As people type it: small letters, blanks for dashes.
	id, err := Enrol(t.Context(), EnrolOptions{URL: url + "/", Code: " " + strings.ToLower(strings.ReplaceAll(c.code(), "-", " ")), Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	again, err := LoadIdentity(dir)
	if err != nil {
		t.Fatal(err)
	}
	if again.Terminal != "T-1" || again.Central != url || again.CentralKey != c.public || again.ClaimKey != c.claim || len(again.SealKeys) != 1 || !again.key.Equal(id.key) || !again.Expires().Equal(id.Expires()) {
		t.Errorf("%+v", again.file.Terminal)
	}
	list, err := os.ReadDir(dir)
	if err != nil || len(list) != 2 {
		t.Fatalf("left in the folder: %v %v", list, err)
	}
	for _, f := range list {
		if info, err := f.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v %v", f.Name(), info.Mode(), err)
		}
	}
	var a wire.HelloAnswer
	k := newClient(must(parseURL(url)), nil, again.tlsConfig(time.Now))
	defer k.close()
	if err := k.post(t.Context(), wire.PathHello, wire.Hello{Protocol: 1}, &a); err != nil {
		t.Error(err)
	}
}

// TestSecretIsToldOnlyToTheCentralThatPrintedTheCode: another CA, a leaf that is not the
// pinned CA's, and a certificate that is not a server's hear nothing.
func TestSecretIsToldOnlyToTheCentralThatPrintedTheCode(t *testing.T) {
	real := newCentral(t)
	for name, build := range map[string]func() *fake{
		"another CA": func() *fake { return newCentral(t) },
		"the real CA shown beside another's leaf": func() *fake {
			thief := newCentral(t)
			thief.shown = real.ca
			return thief
		},
		"a terminal's certificate": func() *fake { return real },
	} {
		c := build()
		usage := x509.ExtKeyUsageServerAuth
		if c == real {
			usage = x509.ExtKeyUsageClientAuth
		}
		l := must(net.Listen("tcp", "127.0.0.1:0"))
		c.serve(l, usage)
		dir := t.TempDir()
		_, err := Enrol(t.Context(), EnrolOptions{URL: "https://" + l.Addr().String(), Code: real.code(), Dir: dir})
		if !errors.Is(err, ErrNotPinned) || c.asked("") != 0 {
			t.Errorf("%s: %d requests, %v", name, c.asked(""), err)
		}
		if _, err := LoadIdentity(dir); !errors.Is(err, ErrNoIdentity) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEnrolmentWhoseAnswerWasLostIsRepeatedWithTheSameKey(t *testing.T) {
	c := newCentral(t)
	url := c.loopback()
	c.spoil = func(_ http.ResponseWriter, _ *http.Request, body []byte) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.enrol(&swallow{}, body)
		panic(http.ErrAbortHandler)
	}
	dir := t.TempDir()
	if _, err := Enrol(t.Context(), EnrolOptions{URL: url, Code: c.code(), Dir: dir}); !errors.Is(err, ErrUnreachable) {
		t.Fatal(err)
	}
	kept, err := filepath.Glob(filepath.Join(dir, pendingPattern))
	if err != nil || len(kept) != 1 {
		t.Fatalf("the key is not kept: %v %v", kept, err)
	}
	if info, err := os.Stat(kept[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the key is not kept: %v", err)
	}
	// Another code, mistyped, with the network still bad: the first one's key stays.
	if _, err := Enrol(t.Context(), EnrolOptions{URL: url, Code: wire.EncodeEnrolCode(wire.EnrolSecret{9}, wire.PinOf(c.ca.RawSubjectPublicKeyInfo)), Dir: dir}); err == nil {
		t.Fatal("a mistyped code enrols")
	}
	c.update(func() { c.spoil = nil })
	if _, err := Enrol(t.Context(), EnrolOptions{URL: url, Code: c.code(), Dir: dir}); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, pendingPattern)); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	// Another device with the same code is refused, and told what to do.
	dir = t.TempDir()
	_, err = Enrol(t.Context(), EnrolOptions{URL: url, Code: c.code(), Dir: dir})
	if list, err := os.ReadDir(dir); err != nil || len(list) != 0 {
		t.Errorf("a key that is good for nothing is left: %v %v", list, err)
	}
	if refused, ok := errors.AsType[*wire.Error](err); !ok || refused.Kind != wire.KindBadCode || !strings.Contains(err.Error(), "central terminal add") {
		t.Error(err)
	}
}

func TestIdentityIsReplacedOnlyWhenAskedAndNeverLostByAFailure(t *testing.T) {
	c := newCentral(t)
	url := c.loopback()
	dir := t.TempDir()
	first, err := Enrol(t.Context(), EnrolOptions{URL: url, Code: c.code(), Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Enrol(t.Context(), EnrolOptions{URL: url, Code: c.code(), Dir: dir}); !errors.Is(err, ErrEnrolled) {
		t.Fatal(err)
	}
	if _, err := Enrol(t.Context(), EnrolOptions{URL: url, Code: c.code(), Dir: dir, Again: true}); err == nil { // the code is used up
		t.Fatal("a code was good for two keys")
	}
	if kept, err := LoadIdentity(dir); err != nil || !kept.key.Equal(first.key) {
		t.Fatalf("the failure cost the identity: %v", err)
	}
	c.update(func() { c.csr, c.secret = "", wire.EnrolSecret{1} })
	second, err := Enrol(t.Context(), EnrolOptions{URL: url, Code: c.code(), Dir: dir, Again: true})
	if err != nil {
		t.Fatal(err)
	}
	if now, err := LoadIdentity(dir); err != nil || !now.key.Equal(second.key) || now.key.Equal(first.key) {
		t.Fatalf("not replaced: %v", err)
	}
}

func TestEnrolmentWorksOnABoardThatBootsInThePast(t *testing.T) {
	c := newCentral(t)
	if _, err := Enrol(t.Context(), EnrolOptions{URL: c.loopback(), Code: c.code(), Dir: t.TempDir(), Now: func() time.Time { return time.Unix(0, 0) }}); err != nil {
		t.Fatal(err)
	}
}

func TestAnswerThatDoesNotHoldTogetherMakesNoIdentity(t *testing.T) {
	for name, edit := range map[string]func(*identityFile){
		"another key's certificate": func(f *identityFile) {
			key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
			f.Key = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(key))}))
		},
		"another name":      func(f *identityFile) { f.Terminal = "T-2" },
		"no name":           func(f *identityFile) { f.Terminal = "" },
		"another CA":        func(f *identityFile) { f.CA = certPEM(newCentral(t).ca) },
		"no central key":    func(f *identityFile) { f.CentralKey = "" },
		"a bad seal key":    func(f *identityFile) { f.SealKeys = []string{"x"} },
		"no claim key":      func(f *identityFile) { f.ClaimKey = "" },
		"a later format":    func(f *identityFile) { f.Format = 2 },
		"two certificates":  func(f *identityFile) { f.Certificate += f.Certificate },
		"a key that is not": func(f *identityFile) { f.Key = f.Certificate },
	} {
		c := newCentral(t)
		dir := t.TempDir()
		id, err := Enrol(t.Context(), EnrolOptions{URL: c.loopback(), Code: c.code(), Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		edit(&id.file)
		if err := id.store(); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadIdentity(dir); !errors.Is(err, ErrIdentity) || strings.Contains(err.Error(), "BEGIN") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAddressThatDoesNotSpeakTLSIsNamed(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	_, err := Enrol(t.Context(), EnrolOptions{URL: "https://" + s.Listener.Addr().String(), Code: newCentral(t).code(), Dir: t.TempDir()})
	if !errors.Is(err, ErrNotCentral) || !strings.Contains(err.Error(), "does not speak TLS") {
		t.Error(err)
	}
}

func TestIdentityThatOthersCanReadIsRefused(t *testing.T) {
	c := newCentral(t)
	dir := t.TempDir()
	if _, err := Enrol(t.Context(), EnrolOptions{URL: c.loopback(), Code: c.code(), Dir: dir}); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, identityName), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadIdentity(dir); !errors.Is(err, ErrIdentity) || !strings.Contains(err.Error(), "chmod 600") {
		t.Error(err)
	}
}

func TestWhatCannotBeEnrolledSendsNothing(t *testing.T) {
	c := newCentral(t)
	url := c.loopback()
	for name, o := range map[string]EnrolOptions{
		"no code":     {URL: url, Code: ""},
		"half a code": {URL: url, Code: c.code()[:20]},
		"plain HTTP":  {URL: strings.Replace(url, "https", "http", 1), Code: c.code()},
		"a path":      {URL: url + "/v1/enrol", Code: c.code()},
		"no host":     {URL: "https://:8443", Code: c.code()},
	} {
		o.Dir = filepath.Join(t.TempDir(), "identity")
		_, err := Enrol(t.Context(), o)
		if err == nil || c.asked("") != 0 || strings.Contains(err.Error(), c.code()) {
			t.Errorf("%s: %d requests, %v", name, c.asked(""), err)
		}
		if _, err := os.Stat(o.Dir); !os.IsNotExist(err) {
			t.Errorf("%s: a folder was made", name)
		}
	}
}
