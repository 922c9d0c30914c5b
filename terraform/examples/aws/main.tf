# A VPC of its own, and an event gateway in it, at https://<hostname>.

terraform {
  required_version = ">= 1.9"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 6.0, < 7.0"
    }
  }
}

provider "aws" {
  region = var.region
}

data "aws_route53_zone" "this" {
  name = var.zone_name
}

module "vpc" {
  #checkov:skip=CKV_TF_1:The registry's versions are pinned exactly, and say more than a hash does.
  source  = "terraform-aws-modules/vpc/aws"
  version = "6.5.1"

  name               = var.name
  cidr               = "10.40.0.0/16"
  azs                = var.availability_zones
  private_subnets    = ["10.40.0.0/20", "10.40.16.0/20"]
  public_subnets     = ["10.40.240.0/24", "10.40.241.0/24"]
  enable_nat_gateway = true
  single_nat_gateway = var.single_nat_gateway
}

resource "aws_acm_certificate" "this" {
  domain_name       = var.hostname
  validation_method = "DNS"

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_route53_record" "validation" {
  for_each = {
    for option in aws_acm_certificate.this.domain_validation_options : option.domain_name => option
  }

  zone_id = data.aws_route53_zone.this.zone_id
  name    = each.value.resource_record_name
  type    = each.value.resource_record_type
  records = [each.value.resource_record_value]
  ttl     = 300
}

resource "aws_acm_certificate_validation" "this" {
  certificate_arn         = aws_acm_certificate.this.arn
  validation_record_fqdns = [for record in aws_route53_record.validation : record.fqdn]
}

module "event_gateway" {
  source = "../../aws"

  name               = var.name
  image              = var.image
  vpc_id             = module.vpc.vpc_id
  public_subnet_ids  = module.vpc.public_subnets
  private_subnet_ids = module.vpc.private_subnets
  certificate_arn    = aws_acm_certificate_validation.this.certificate_arn
  public_url         = "https://${var.hostname}"
  cluster_mode       = var.cluster_mode
}

resource "aws_route53_record" "this" {
  zone_id = data.aws_route53_zone.this.zone_id
  name    = var.hostname
  type    = "A"

  alias {
    name                   = module.event_gateway.load_balancer_dns_name
    zone_id                = module.event_gateway.load_balancer_zone_id
    evaluate_target_health = false
  }
}
