-- Stream tables that came from the files of a project, by name: what a plan may drop when its file is gone.
CREATE TABLE project_files (
    stream_table text PRIMARY KEY,
    project      text NOT NULL,
    path         text NOT NULL,
    applied_at   timestamptz NOT NULL DEFAULT now()
);
