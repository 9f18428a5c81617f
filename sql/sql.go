// Package sql holds the schema and the queries of Flow as a DBA would want to read them: migrations in order, one
// file of queries a table. It has no logic; package store runs the migrations and holds the generated code.
package sql

import "embed"

// Migrations is the schema, one goose file a step. Released files never change: a new step is a new file.
//
//go:embed migrations/*.sql
var Migrations embed.FS
