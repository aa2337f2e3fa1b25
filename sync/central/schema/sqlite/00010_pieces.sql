-- +goose Up
-- Names of the blocks' descriptors; the files lie beside the blocks. Central fills them in
-- when it opens.
ALTER TABLE blocks ADD COLUMN pieces TEXT NOT NULL DEFAULT '';

-- The same snapshot in the text that names descriptors, signed; '' where it names none.
ALTER TABLE snapshots ADD COLUMN with_pieces TEXT NOT NULL DEFAULT '';
