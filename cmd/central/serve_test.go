package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"grattoir/sync/wire"
)

func TestLinkScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata/link", Cmds: map[string]func(*testscript.TestScript, bool, []string){"mode": mode, "code": code}})
}

// code N PROGRAM ARGS... runs a program that must exit with N, which is not 0.
func code(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != want {
		ts.Fatalf("exit %v, want %d", err, want)
	}
}

// TestServeStopsInOrderOnSIGTERM: the real program serves what it prints, proves itself
// by the enrolment code's pin, takes an act of the operations' tool beside it, and
// leaves with 0.
func TestServeStopsInOrderOnSIGTERM(t *testing.T) {
	data := filepath.Join(t.TempDir(), "c")
	cert, key, pool := selfSigned(t)
	serve := exec.Command("central", "serve", "--data", data, "--listen", "127.0.0.1:0", "--console", "127.0.0.1:0", "--console-cert", cert, "--console-key", key, "--metrics", "127.0.0.1:0", "--name", "127.0.0.1", "--json")
	out, err := serve.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	serve.Stderr = &log
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = serve.Process.Kill() })
	var where listening
	if err := json.NewDecoder(out).Decode(&where); err != nil {
		t.Fatalf("%v: %s", err, log.String())
	}
	var added struct{ Code string }
	text, err := exec.Command("central", "terminal", "add", "shop-1", "--data", data, "--json").Output()
	if err != nil || json.Unmarshal(text, &added) != nil {
		t.Fatalf("%v: %s", err, text)
	}
	_, pin, err := wire.ParseEnrolCode(added.Code)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, VerifyConnection: func(s tls.ConnectionState) error {
		ca := s.PeerCertificates[len(s.PeerCertificates)-1]
		pool := x509.NewCertPool()
		pool.AddCert(ca)
		if _, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: pool, DNSName: "127.0.0.1"}); err != nil || wire.PinOf(ca.RawSubjectPublicKeyInfo) != pin {
			return errors.New("not the central that made the code")
		}
		return nil
	}}}}
	resp, err := client.Get(where.API + wire.PathSnapshot)
	if err != nil {
		t.Fatal(err)
	}
	var e wire.Error
	if err := json.NewDecoder(resp.Body).Decode(&e); err != nil || e.Kind != wire.KindForbidden {
		t.Fatalf("%v: %v", &e, err)
	}
	_ = resp.Body.Close()
	pages := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	for url, want := range map[string]string{where.Console + "/sign-in": "central user add", where.Metrics: "grattoir_requests_total"} {
		resp, err := pages.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil || resp.StatusCode != 200 || !strings.Contains(string(text), want) {
			t.Errorf("%s: %d, %v: %s", url, resp.StatusCode, err, text)
		}
	}
	if err := serve.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := serve.Wait(); err != nil {
		t.Fatalf("%v: %s", err, log.String())
	}
}

// selfSigned makes a certificate of 127.0.0.1 with its key, as files, and the pool that
// believes it.
func selfSigned(t *testing.T) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	form := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, form, form, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key, pool = filepath.Join(dir, "console.pem"), filepath.Join(dir, "console.key"), x509.NewCertPool()
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	pool.AppendCertsFromPEM(public)
	if err := errors.Join(os.WriteFile(cert, public, 0o600), os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600)); err != nil {
		t.Fatal(err)
	}
	return cert, key, pool
}

// TestServeKeepsItsTablesInPostgres: named once, by the configuration of the server; the
// operations' tools find it by the folder, while it serves and after.
func TestServeKeepsItsTablesInPostgres(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "c")
	config := fmt.Sprintf("data = \"c\"\nlisten = \"127.0.0.1:0\"\nconsole = \"127.0.0.1:0\"\ndatabase = %q\n", server.Fresh(t)+"&application_name=a-word-of-the-url")
	if err := os.WriteFile(filepath.Join(dir, "central.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	serve := exec.Command("central", "serve", "--config", filepath.Join(dir, "central.toml"), "--json")
	out, err := serve.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	serve.Stderr = &log
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = serve.Process.Kill() })
	var where listening
	if err := json.NewDecoder(out).Decode(&where); err != nil {
		t.Fatalf("%v: %s", err, log.String())
	}
	for _, args := range [][]string{{"terminal", "add", "shop-1"}, {"terminal", "region", "shop-1", "bzh"}, {"report", "sync"}} {
		if text, err := exec.Command("central", append(args, "--data", data)...).CombinedOutput(); err != nil {
			t.Fatalf("central %v: %v: %s", args, err, text)
		}
	}
	if err := serve.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := serve.Wait(); err != nil || strings.Contains(log.String(), "a-word-of-the-url") {
		t.Fatalf("%v: %s", err, log.String())
	}
	if text, err := exec.Command("central", "terminal", "list", "--data", data).CombinedOutput(); err != nil || !strings.Contains(string(text), "shop-1") {
		t.Fatalf("%v: %s", err, text)
	}
	if _, err := os.Stat(filepath.Join(data, "central.db")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a SQLite file beside it: %v", err)
	}
}
