package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
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
