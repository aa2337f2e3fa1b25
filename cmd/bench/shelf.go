package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"grattoir/cmd/internal/cli"
	"grattoir/validate/manifest"
	"grattoir/validate/ticket"
)

const (
	shelfBlocks  = 40         // a country's live games
	shelfLookups = 10_000     // random ones, over all blocks
	shelfBound   = 40_000_000 // bytes they may add to the daemon, design section 14
)

// shelf measures what many open blocks add to a process. Forty files of 9 000 000 tickets
// would be 3 GB, so one file stands under forty names, each opened as a block of its own,
// with its own connection, caches and proofs. What the files' contents would take
// is the system's page cache, which is nobody's resident memory: manifests are never mapped.
func (b *bench) shelf(ctx context.Context, work string, s *sealedBlock) error {
	dir := filepath.Join(work, "shelf")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for n := range shelfBlocks {
		if err := os.Link(s.path, filepath.Join(dir, fmt.Sprintf("%02d.manifest", n))); err != nil {
			return err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var codes, out bytes.Buffer
	for _, c := range s.codes {
		fmt.Fprintln(&codes, c.Digits())
	}
	fresh := exec.CommandContext(ctx, self, "shelf", dir, "--key", s.public)
	fresh.Stdin, fresh.Stdout, fresh.Stderr = &codes, &out, os.Stderr
	if err := fresh.Run(); err != nil {
		return fmt.Errorf("the process with %d blocks: %w", shelfBlocks, err)
	}
	var m shelfMemory
	if err := json.Unmarshal(out.Bytes(), &m); err != nil {
		return err
	}
	for _, figure := range []struct {
		what  string
		bytes int64
	}{{"opened", m.Opened}, {"after 10 000 look-ups", m.Asked}} {
		b.add(fmt.Sprintf("%d blocks, memory added, %s", shelfBlocks, figure.what), fmt.Sprintf("%.1f MB", float64(figure.bytes)/1e6),
			fmt.Sprintf("bound %d MB", shelfBound/1_000_000), fmt.Sprintf("%.2f", float64(figure.bytes)/shelfBound), "ratio 1")
	}
	return nil
}

// shelfMemory is what a fresh process grew by, in bytes of resident memory.
type shelfMemory struct {
	Opened int64 `json:"opened"`
	Asked  int64 `json:"asked"` // since before opening, after the look-ups
}

// shelfCommand is the fresh process of that measurement.
func shelfCommand() *cobra.Command {
	var key string
	cmd := &cobra.Command{
		Use:    "shelf DIR --key PUB",
		Short:  "Open every manifest of a folder, look up the codes on standard input, say what memory it took",
		Hidden: true,
		Args:   cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			cli.SmallHeap() // as terminald does
			m, err := measureShelf(cmd.Context(), args[0], key, cmd.InOrStdin())
			if err != nil {
				return err
			}
			return cli.JSON(cmd.OutOrStdout(), m)
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "the public `key` that the manifests are signed with")
	return cmd
}

func measureShelf(ctx context.Context, dir, key string, in io.Reader) (m shelfMemory, err error) {
	keys, err := manifest.NewKeys(1, key)
	if err != nil {
		return m, err
	}
	var codes []ticket.Code
	for scan := bufio.NewScanner(in); scan.Scan(); {
		c, err := ticket.Parse(strings.TrimSpace(scan.Text()), 0, ticket.Shipped())
		if err != nil {
			return m, err
		}
		codes = append(codes, c)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.manifest"))
	if err != nil || len(names) == 0 || len(codes) == 0 {
		return m, errors.Join(fmt.Errorf("%d manifests and %d codes", len(names), len(codes)), err)
	}
	before := residentBytes()
	var blocks []*manifest.Block
	defer func() {
		for _, b := range blocks {
			err = errors.Join(err, b.Close())
		}
	}()
	for _, name := range names {
		b, err := manifest.Open(ctx, name, keys)
		if err != nil {
			return m, err
		}
		blocks = append(blocks, b)
	}
	m.Opened = residentBytes() - before
	for range shelfLookups {
		if _, err := blocks[rand.IntN(len(blocks))].Open(ctx, codes[rand.IntN(len(codes))]); err != nil {
			return m, err
		}
	}
	m.Asked = residentBytes() - before
	return m, nil
}
