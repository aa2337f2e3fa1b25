package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"grattoir/device/health"
	"grattoir/device/screen"
)

// workshop is what the technician's pages need.
func (d *daemon) workshop() screen.Workshop {
	bench := d.bench()
	w := screen.Workshop{Bench: &bench, Addresses: d.addresses}
	if tool, err := besides("terminalctl"); err == nil && d.path != "" {
		w.Examine = func(ctx context.Context) (health.Report, error) { return examine(ctx, tool, d.path, d.config.Socket) }
	}
	return w
}

// besides is a program that lies beside this one.
func besides(name string) (string, error) {
	own, err := os.Executable()
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(own), name)
	_, err = os.Stat(path)
	return path, err
}

const (
	examineFor = time.Minute
	maxReport  = 1 << 20
)

// examine runs the doctor. It is terminalctl's, which works with the daemon down too: there
// is one of it, and the page shows what a technician's shell would.
func examine(ctx context.Context, tool, config, socket string) (health.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, examineFor)
	defer cancel()
	var out bounded
	cmd := exec.CommandContext(ctx, tool, "doctor", "--json", "--config", config, "--socket", socket)
	cmd.Stdout, cmd.WaitDelay = &out, time.Second
	err := cmd.Run() // its exit status tells of findings, which are in the report too
	var r health.Report
	if bad := json.Unmarshal(out.text.Bytes(), &r); bad != nil {
		return r, fmt.Errorf("doctor: no report: %w", errors.Join(err, bad))
	}
	return r, nil
}

// bounded keeps what a program writes, up to maxReport. The buffer is no embedded one:
// that has a ReadFrom, which io.Copy prefers to Write and which has no bound.
type bounded struct{ text bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if b.text.Len()+len(p) > maxReport {
		return 0, fmt.Errorf("more than %d bytes", maxReport)
	}
	return b.text.Write(p)
}

// maxAddresses is how many fit the page.
const maxAddresses = 6

// addresses are those of the machine's network, and central's.
func (d *daemon) addresses() []screen.Address {
	list := []screen.Address{}
	if url := d.config.Central.URL; url != "" {
		list = append(list, screen.Address{Of: "central", Text: url})
	}
	found, err := net.InterfaceAddrs()
	logError(d.log, "listing the network's addresses", err)
	for _, a := range found {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && !n.IP.IsLinkLocalUnicast() && len(list) < maxAddresses {
			list = append(list, screen.Address{Of: "network", Text: n.IP.String()})
		}
	}
	return append(list, screen.Address{Of: "page", Text: "http://" + d.config.Screen.Listen + "/"}, screen.Address{Of: "program", Text: version()})
}
