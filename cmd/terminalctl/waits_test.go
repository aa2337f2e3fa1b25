package main

import (
	"context"
	"crypto/rand"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"grattoir/device/health"
)

// TestDoctorAndBundleWaitForNoPipe puts a pipe, at whose other end is nobody, in the place
// of each file that they read: opening one the usual way never returns.
func TestDoctorAndBundleWaitForNoPipe(t *testing.T) {
	for _, name := range []string{"till.toml", "lottery.pub", "claim.pub", "data/ledger.db", "data/ledger.db.lock", "data/policies/p.policy", "data/manifests/b.manifest", "data/slip.key", "scanner", "printer"} {
		t.Run(strings.ReplaceAll(name, "/", "-"), func(t *testing.T) {
			dir := t.TempDir()
			config := "name = \"T-1\"\ndata = \"data\"\nsocket = \"s\"\nkeys = [\"lottery.pub\"]\nclaim_key = \"claim.pub\"\nstand_alone = true\nscanner.path = \"scanner\"\nshop.name = \"Tabac\"\n" +
				"[printer]\npath = \"printer\"\n[policy]\nversion = \"t1\"\ncurrency = \"EUR\"\nshop_limit_minor = 30000\nclaim_days = 30\n"
			for file, text := range map[string]string{"till.toml": config, "data/policies/other": "", "data/manifests/other": ""} {
				path := filepath.Join(dir, file)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			pipe := filepath.Join(dir, name)
			_ = os.Remove(pipe)
			if err := syscall.Mkfifo(pipe, 0o600); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() {
				p := &patient{configPath: filepath.Join(dir, "till.toml"), socket: filepath.Join(dir, "s")}
				_, err := p.bundle(context.WithoutCancel(t.Context()), strings.NewReader(""))
				ended <- err
			}()
			select {
			case err := <-ended:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(20 * time.Second):
				t.Error("waits for somebody to write into the pipe")
				for range 8 { // let it go on
					if f, err := os.OpenFile(pipe, os.O_RDWR|syscall.O_NONBLOCK, 0); err == nil {
						defer f.Close()
					}
				}
			}
		})
	}
}

// TestBundleIsMadeThoughAPartIsTooLarge: a folder full of files with long names must not
// leave the technician without a bundle.
func TestBundleIsMadeThoughAPartIsTooLarge(t *testing.T) {
	dir := t.TempDir()
	blocks := filepath.Join(dir, "data", "manifests")
	if err := os.MkdirAll(blocks, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range maxLooked {
		if err := os.WriteFile(filepath.Join(blocks, strings.Repeat("\x01", 230)+strconv.Itoa(i)+".manifest"), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, public, err := note.GenerateKey(rand.Reader, "lottery")
	if err != nil {
		t.Fatal(err)
	}
	config := "name = \"T-1\"\ndata = \"data\"\nsocket = \"s\"\nkeys = [\"lottery.pub\"]\nstand_alone = true\nscanner.path = \"scanner\"\nshop.name = \"Tabac\"\nprinter.path = \"printer\"\n" +
		"[policy]\nversion = \"t1\"\ncurrency = \"EUR\"\nshop_limit_minor = 30000\nclaim_days = 30\n"
	for name, text := range map[string]string{"lottery.pub": public, "till.toml": config} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := &patient{configPath: filepath.Join(dir, "till.toml"), socket: filepath.Join(dir, "s")}
	b, err := p.bundle(t.Context(), strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	parts, err := b.Write(io.Discard, "x", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(parts, func(p health.Part) bool { return p.Name == health.PartManifests }); i < 0 || parts[i].Bytes > 200 {
		t.Errorf("%+v", parts)
	}
}
